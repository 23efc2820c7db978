#include "checkpoint/gguf_chat_templates.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

constexpr const char *kDefault = "default", *kToolUse = "tool_use",
                     *kTemplateKey = "tokenizer.chat_template";

const Json& member(const Json& object, const char* name) {
  static const Json none;
  return object.is_object() && object.contains(name) ? object[name] : none;
}

/// The chat templates of a model by name: "default", "tool_use" …
std::map<std::string, std::string> chat_templates(const TokenizerFiles& files) {
  std::map<std::string, std::string> templates;
  if (files.has("chat_template.jinja")) templates[kDefault] = files.text("chat_template.jinja");
  for (const char* name : {kDefault, kToolUse}) {
    const std::string file = std::string(kTemplatesFolder) + "/" + name + kTemplateEnd;
    if (files.has(file)) templates[name] = files.text(file);
  }
  if (!templates.empty() || !files.has(kTokenizerConfigurationFile)) return templates;
  const auto file = parse_json<Json>(files.text(kTokenizerConfigurationFile),
                                     files.where(kTokenizerConfigurationFile));
  const Json& given = member(file, "chat_template");
  if (given.is_string()) templates[kDefault] = given.get<std::string>();
  if (!given.is_array()) return templates;
  for (const Json& entry : given) {
    const Json &name = member(entry, "name"), &text = member(entry, "template");
    if (name.is_string() && text.is_string())
      templates[name.get<std::string>()] = text.get<std::string>();
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
