// Our texts are those of Python: tests/data/template/texts.json, written by
// tools/oracle/templates_oracle.py --store.

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "support/paths.h"
#include "template/chat_template.h"

namespace viaduct {
namespace {

using nlohmann::json;

TemplateVariables variables_of(const std::string& text) {
  TemplateVariables variables;
  const TemplateValue members = TemplateValue::from_json(text, "variables");
  for (const auto& [name, value] : members.as_map().entries()) {
    variables.set(name.as_text(), value);
  }
  variables.clock = {2026, 2, 3, 4, 5, 6, 7};
  return variables;
}

// Keys must keep their order on their way through the test.
nlohmann::ordered_json cases() {
  return nlohmann::ordered_json::parse(read_file(test::test_data("template/texts.json")));
}

std::string rendered_or_error(const std::string& text, const TemplateVariables& variables,
                              json& ranges) {
  try {
    const RenderedTemplate rendered = ChatTemplate::parse(text, "own").render(variables);
    ranges = rendered.generations;
    return rendered.text;
  } catch (const TemplateError& error) {
    return std::string("error: ") + error.what();
  }
}

TEST(TemplateTexts, ExpressionsAndStatementsAreThoseOfPython) {
  const auto document = cases();
  const TemplateVariables variables = variables_of(document["variables"].dump());
  size_t compared = 0;
  for (const auto& entry : document["cases"]) {
    const std::string text = entry["template"];
    json ranges = json::array();
    const std::string mine = rendered_or_error(text, variables, ranges);
    if (entry["text"].is_null()) {
      EXPECT_TRUE(mine.starts_with("error: ")) << text << "\nfound: " << mine;
    } else {
      EXPECT_EQ(mine, entry["text"].get<std::string>()) << text;
      EXPECT_EQ(ranges.dump(), entry["generations"].dump()) << text;
    }
    ++compared;
  }
  EXPECT_GT(compared, 500U);
}

TEST(TemplateTexts, ChatsAreThoseOfPython) {
  const auto document = cases();
  size_t texts = 0;
  for (const auto& chat : document["chats"]) {
    const std::string text = chat["template"];
    for (size_t i = 0; i < document["conversations"].size(); ++i) {
      const std::string conversation = document["conversations"][i].dump();
      json ranges;
      const std::string mine = rendered_or_error(text, variables_of(conversation), ranges);
      if (chat["texts"][i].is_null()) {
        EXPECT_TRUE(mine.starts_with("error: ")) << conversation << "\nfound: " << mine;
      } else {
        EXPECT_EQ(mine, chat["texts"][i].get<std::string>()) << conversation;
        ++texts;
      }
    }
  }
  EXPECT_GT(texts, 30U);
}

}  // namespace
}  // namespace viaduct
