#include "conversation/context_visibility.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kReasoning = {"reasoning_content", "thinking",
                                                        "reasoning"};

/// Whether the texts of the first messages of both are one; not where the template refuses one.
bool same_text(const ChatRenderer& renderer, const Conversation& a, const Conversation& b,
               size_t messages, const RenderOptions& options) {
  try {
    return renderer.render(a, messages, options).text == renderer.render(b, messages, options).text;
  } catch (const ConfigError&) {
    return false;
  }
}

bool shows_documents(const ChatRenderer& renderer, const Conversation& conversation,
                     const RenderOptions& options) {
  const TemplateValue& documents = conversation.documents;
  if (!documents.is_list() || documents.as_list().items.empty()) return true;
  Conversation without = conversation;
  without.documents = {};
  return !same_text(renderer, conversation, without, conversation.messages.size(), options);
}

bool has_reasoning(const ChatMessage& message) {
  return message.is_answer() &&
         std::ranges::any_of(kReasoning, [&](std::string_view name) { return message.has(name); });
}

bool shows_reasoning(const ChatRenderer& renderer, const Conversation& conversation, size_t message,
                     const RenderOptions& options) {
  const auto named = [&](std::string_view name) { return renderer.contains(name); };
  if (std::ranges::none_of(kReasoning, named)) return false;
  Conversation without = conversation;
  TemplateMap map;
  for (const auto& [key, value] : conversation.messages[message].value.as_map().entries()) {
    if (!key.is_text() || std::ranges::find(kReasoning, key.as_text()) == kReasoning.end())
      map.set(key, value);
  }
  without.messages[message].value = TemplateValue::map(std::move(map));
  return !same_text(renderer, conversation, without, message + 1, options);
}

/// Whether `text` has the JSON of a call's arguments that are themselves JSON of an object.
bool has_twice(const TemplateValue& call, std::string_view text) {
  if (!call.is_map()) return false;
  const TemplateValue* function = call.as_map().find("function");
  const TemplateValue& of = function != nullptr && function->is_map() ? *function : call;
  const TemplateValue* arguments = of.as_map().find("arguments");
  if (arguments == nullptr || !arguments->is_text()) return false;
  const std::string& given = arguments->as_text();
  const size_t first = given.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || given[first] != '{' || !is_json<ordered_json>(given))
    return false;
  const std::string encoded =
      ordered_json(given).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return text.find(encoded) != std::string_view::npos;
}

}  // namespace

std::string hidden_context(const ChatRenderer& renderer, const Conversation& conversation,
                           const RenderOptions& options) {
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    if (has_reasoning(conversation.messages[i]) &&
        !shows_reasoning(renderer, conversation, i, options))
      return fmt::format("the reasoning of message {}", i + 1);
  }
  return shows_documents(renderer, conversation, options) ? "" : "the documents";
}

std::optional<size_t> arguments_encoded_twice(const Conversation& conversation,
                                              std::string_view text) {
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const TemplateValue* calls = conversation.messages[i].value.as_map().find("tool_calls");
    if (calls == nullptr || !calls->is_list()) continue;
    if (std::ranges::any_of(calls->as_list().items,
                            [&](const TemplateValue& call) { return has_twice(call, text); }))
      return i;
  }
  return std::nullopt;
}

}  // namespace viaduct
