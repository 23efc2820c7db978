#include "conversation/chat_renderer.h"

#include <chrono>
#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/tokenizer_files.h"
#include "template/template_error.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr const char *kDefault = "default", *kToolUse = "tool_use";
constexpr size_t kLargestTemplate = size_t{16} << 20;

struct NamedTemplate {
  std::string text, where;
};
using NamedTemplates = std::map<std::string, NamedTemplate>;

/// `chat_template` of a JSON file: a text, a list of {name, template}, or an object of them.
void read_member(const json& document, const std::string& where, NamedTemplates& templates) {
  const json* member = find_member(document, "chat_template");
  if (member == nullptr) return;
  const auto add = [&](const std::string& name, const json& text) {
    VIADUCT_CHECK(IoError, text.is_string(), "{}: the chat template \"{}\" is no text", where,
                  name);
    templates[name] = {text.get<std::string>(), fmt::format("{}: chat_template", where)};
  };
  if (member->is_string()) return add(kDefault, *member);
  if (member->is_object()) {
    for (const auto& [name, text] : member->items()) add(name, text);
    return;
  }
  VIADUCT_CHECK(IoError, member->is_array(), "{}: chat_template is {}, expected a text or a list",
                where, member->type_name());
  for (const json& entry : *member) {
    const json* name = find_member(entry, "name");
    const json* text = find_member(entry, "template");
    VIADUCT_CHECK(IoError, name != nullptr && name->is_string() && text != nullptr,
                  "{}: a chat template in the list has no name or no template", where);
    add(name->get<std::string>(), *text);
  }
}

NamedTemplates find_templates(const TokenizerFiles& files) {
  NamedTemplates templates;
  for (const auto& [file, name] :
       {std::pair{"chat_template.jinja", kDefault},
        std::pair{"additional_chat_templates/default.jinja", kDefault},
        std::pair{"additional_chat_templates/tool_use.jinja", kToolUse}}) {
    if (files.has(file)) templates[name] = {files.text(file), files.where(file)};
  }
  for (const char* file : {"chat_template.json", "tokenizer_config.json"}) {
    if (!templates.empty()) break;
    if (const auto document = files.object(file))
      read_member(*document, files.where(file), templates);
  }
  return templates;
}

}  // namespace

TemplateClock local_clock() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return {local.tm_year + 1900,
          local.tm_mon + 1,
          local.tm_mday,
          local.tm_hour,
          local.tm_min,
          local.tm_sec,
          static_cast<int>(since.count() % 1'000'000)};
}

std::optional<ChatRenderer> ChatRenderer::load(const TokenizerFiles& files) {
  const NamedTemplates found = find_templates(files);
  if (found.empty()) return std::nullopt;
  VIADUCT_CHECK(ConfigError, found.contains(kDefault) || found.contains(kToolUse),
                "{}: has several chat templates and none is named \"default\"", files.where());
  ChatRenderer renderer;
  renderer.special_ = special_token_texts(files);
  for (const auto& [name, text] : found) {
    if (name == kDefault || name == kToolUse) renderer.add(name, text.text, text.where);
  }
  return renderer;
}

ChatRenderer ChatRenderer::of_text(const std::string& text, const std::string& where,
                                   SpecialTokenTexts special) {
  ChatRenderer renderer;
  renderer.special_ = std::move(special);
  renderer.add(kDefault, text, where);
  return renderer;
}

ChatRenderer ChatRenderer::of_file(const std::filesystem::path& file, SpecialTokenTexts special) {
  return of_text(read_file(file, kLargestTemplate), file.string(), std::move(special));
}

ChatRenderer ChatRenderer::with_special_tokens(SpecialTokenTexts special) const {
  ChatRenderer renderer = *this;
  renderer.special_ = std::move(special);
  return renderer;
}

void ChatRenderer::add(const std::string& name, const std::string& text, const std::string& where) {
  templates_.emplace(name, ChatTemplate::parse(text, where));
  ((sources_ += name) += '\0') += text;
  sources_ += '\0';
}

uint64_t ChatRenderer::hash(bool all_tokens) const {
  std::string hashed = sources_;
  for (const auto& [name, token] : special_) {
    if (all_tokens || contains(name)) ((hashed += name) += '=') += token + '\0';
  }
  return hash64(hashed);
}

bool ChatRenderer::contains(std::string_view text) const {
  return sources_.find(text) != std::string::npos;
}

const ChatTemplate& ChatRenderer::template_of(const Conversation& conversation) const {
  const auto tool_use = templates_.find(kToolUse);
  if (tool_use != templates_.end() && !conversation.tools.is_none()) return tool_use->second;
  const auto found = templates_.find(kDefault);
  VIADUCT_CHECK(ConfigError, found != templates_.end(),
                "the model has a chat template for conversations with tools and none for others");
  return found->second;
}

bool ChatRenderer::reads(std::string_view name) const {
  for (const auto& [unused, parsed] : templates_) {
    if (parsed.reads(name)) return true;
  }
  return false;
}

TemplateVariables ChatRenderer::variables(const Conversation& conversation, size_t count,
                                          const RenderOptions& options) const {
  TemplateVariables variables;
  variables.clock = options.clock;
  for (const auto& [name, token] : special_) variables.set(name, TemplateValue(token));
  for (const auto& [name, value] : conversation.variables) variables.set(name, value);
  std::vector<TemplateValue> messages;
  messages.reserve(count);
  for (size_t i = 0; i < count; ++i) messages.push_back(conversation.messages[i].value);
  variables.set("messages", TemplateValue::list(std::move(messages)));
  variables.set("tools", conversation.tools);
  variables.set("documents", conversation.documents);
  variables.set("add_generation_prompt", options.add_generation_prompt);
  return variables;
}

RenderedTemplate ChatRenderer::render(const Conversation& conversation, size_t count,
                                      const RenderOptions& options) const {
  VIADUCT_CHECK(TemplateError, !conversation.messages.empty(), "a conversation without messages");
  return template_of(conversation).render(variables(conversation, count, options));
}

RenderedPrefixes ChatRenderer::render_prefixes(const Conversation& conversation,
                                               const RenderOptions& options) const {
  VIADUCT_CHECK(TemplateError, !conversation.messages.empty(), "a conversation without messages");
  return template_of(conversation)
      .render_prefixes(variables(conversation, conversation.messages.size(), options));
}

}  // namespace viaduct
