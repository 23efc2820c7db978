#include "checkpoint/gguf_chat_templates.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/json_members.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

constexpr const char *kDefault = "default", *kToolUse = "tool_use",
                     *kTemplateKey = "tokenizer.chat_template";

using Templates = std::map<std::string, std::string>;

/// "chat_template" of a file: a text, a list of {name, template}, or an object of texts.
void take_member(const Json& file, Templates& templates) {
  const auto take = [&](const std::string& name, const Json* text) {
    if (text != nullptr && text->is_string()) templates[name] = text->get<std::string>();
  };
  const Json* given = find_member(file, "chat_template");
  if (given == nullptr) return;
  if (given->is_object()) {
    for (const auto& [name, text] : given->items()) take(name, &text);
  } else if (given->is_array()) {
    for (const Json& entry : *given) {
      const Json* name = find_member(entry, "name");
      if (name != nullptr && name->is_string())
        take(name->get<std::string>(), find_member(entry, "template"));
    }
  } else {
    take(kDefault, given);
  }
}

/// The chat templates of a model by name: "default", "tool_use" … From the first of the places
/// where conversation/chat_renderer.h looks.
Templates chat_templates(const TokenizerFiles& files) {
  Templates templates;
  if (files.has("chat_template.jinja")) templates[kDefault] = files.text("chat_template.jinja");
  for (const char* name : {kDefault, kToolUse}) {
    const std::string file = std::string(kTemplatesFolder) + "/" + name + kTemplateEnd;
    if (files.has(file)) templates[name] = files.text(file);
  }
  for (const char* name : {"chat_template.json", kTokenizerConfigurationFile}) {
    if (!templates.empty()) break;
    if (const auto file = files.object(name)) take_member(*file, templates);
  }
  return templates;
}

}  // namespace

void add_gguf_chat_templates(GgufHeadWriter& head, const TokenizerFiles& files) {
  std::vector<std::string> others;
  for (const auto& [name, text] : chat_templates(files)) {
    if (name == kDefault) {
      head.add_text(kTemplateKey, text);
    } else {
      head.add_text(fmt::format("{}.{}", kTemplateKey, name), text);
      others.push_back(name);
    }
  }
  if (!others.empty()) head.add_texts("tokenizer.chat_templates", others);
}

}  // namespace viaduct
