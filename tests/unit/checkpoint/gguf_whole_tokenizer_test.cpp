// The copy of tokenizer.json in a GGUF file, with what the files beside it say of added tokens.

#include "checkpoint/gguf_whole_tokenizer.h"

#include <gmock/gmock.h>

#include "base/json.h"

namespace viaduct {
namespace {

using nlohmann::json;

std::string whole(const std::string& text) {
  AddedToken known{4, "<e>"}, further{5, "<f>"};
  known.lstrip = known.special = further.special = true;
  return whole_tokenizer_json(TokenizerFiles("FOLDER", {{"tokenizer.json", text}}),
                              {known, further});
}

// Large vocabularies are not read again, so that the time is linear in the text.
TEST(GgufWholeTokenizer, ChangesOnlyTheListOfAddedTokens) {
  const std::string begin = "{ \"model\":{\"vocab\": {\"b\": 1,  \"a\": 0}}, \"added_tokens\": ",
                    list = R"([{"id": 4, "content": "<e>", "special": true}])", end = " }\n";
  const std::string made = whole(begin + list + end);
  EXPECT_THAT(made, testing::StartsWith(begin));
  EXPECT_THAT(made, testing::EndsWith(end));
  const json tokens = json::parse(made)["added_tokens"];
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0]["lstrip"], true);
  EXPECT_EQ(tokens[1]["content"], "<f>");
  EXPECT_EQ(whole(made), made);
}

TEST(GgufWholeTokenizer, MakesAListWhereThereIsNone) {
  EXPECT_EQ(json::parse(whole("{}"))["added_tokens"].size(), 2u);
  EXPECT_EQ(json::parse(whole(R"({"added_tokens": null, "a": 1})"))["added_tokens"].size(), 2u);
}

}  // namespace
}  // namespace viaduct
