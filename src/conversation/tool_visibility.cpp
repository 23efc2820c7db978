#include "conversation/tool_visibility.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr const char* kCalls = "tool_calls";

/// A text that no message has: the number of a message between private-use characters U+F0002.
std::string mark_of(size_t message) {
  constexpr std::string_view kSide = "\xf3\xb0\x80\x82";
  return fmt::format("{}{}{}", kSide, message, kSide);
}

/// Calls with the mark behind each function's name: {"name": …}, {"function": {"name": …}}, or a
/// list of these.
TemplateValue with_mark(const TemplateValue& calls, const std::string& mark) {
  if (calls.is_list()) {
    std::vector<TemplateValue> items;
    for (const TemplateValue& call : calls.as_list().items) items.push_back(with_mark(call, mark));
    return TemplateValue::list(std::move(items), calls.as_list().form);
  }
  if (!calls.is_map()) return calls;
  TemplateMap map;
  for (const auto& [key, value] : calls.as_map().entries()) {
    const bool is_name = key.is_text() && key.as_text() == "name" && value.is_text();
    const bool is_function = key.is_text() && key.as_text() == "function";
    map.set(key, is_name       ? TemplateValue(value.as_text() + mark)
                 : is_function ? with_mark(value, mark)
                               : value);
  }
  return TemplateValue::map(std::move(map));
}

/// The message with other calls; none: without them.
void set_calls(ChatMessage& message, const TemplateValue& calls) {
  TemplateMap map;
  for (const auto& [key, value] : message.value.as_map().entries()) {
    const bool is_calls = key.is_text() && key.as_text() == kCalls;
    if (!is_calls || !calls.is_none()) map.set(key, is_calls ? calls : value);
  }
  message.value = TemplateValue::map(std::move(map));
}

}  // namespace

ToolVisibility::ToolVisibility(const ChatRenderer& renderer, const Conversation& conversation,
                               RenderOptions options)
    : renderer_(renderer), conversation_(conversation), options_(std::move(options)) {
  calls_ = std::ranges::any_of(conversation.messages,
                               [](const ChatMessage& message) { return message.has(kCalls); });
  if (calls_) marked_ = text_with_marks();
}

std::string ToolVisibility::text_with_marks() const {
  Conversation marked = conversation_;
  for (size_t i = 0; i < marked.messages.size(); ++i) {
    ChatMessage& message = marked.messages[i];
    if (message.has(kCalls))
      set_calls(message, with_mark(*message.value.as_map().find(kCalls), mark_of(i)));
  }
  try {
    return renderer_.render(marked, options_).text;
  } catch (const ConfigError&) {
    return "";  // a template that knows its functions by name
  }
}

bool ToolVisibility::shows_tools() const {
  const TemplateValue& tools = conversation_.tools;
  if (!tools.is_list() || tools.as_list().items.empty()) return true;
  if (!renderer_.template_of(conversation_).reads("tools")) return false;
  Conversation without = conversation_;
  // An empty list, so that the template is the same.
  without.tools = TemplateValue::list({});
  try {
    return renderer_.render(without, options_).text !=
           renderer_.render(conversation_, options_).text;
  } catch (const ConfigError&) {
    return true;
  }
}

bool ToolVisibility::shows_calls(size_t message) const {
  if (!conversation_.messages[message].has(kCalls)) return true;
  // One text tells it of all messages of nearly all templates.
  if (marked_.find(mark_of(message)) != std::string::npos) return true;
  Conversation without = conversation_;
  set_calls(without.messages[message], {});
  try {
    return renderer_.render(without, message + 1, options_).text !=
           renderer_.render(conversation_, message + 1, options_).text;
  } catch (const ConfigError&) {
    return true;  // the template looks at them, or does not show these messages alone
  }
}

std::string ToolVisibility::hidden() const {
  for (size_t i = 0; calls_ && i < conversation_.messages.size(); ++i)
    if (!shows_calls(i)) return fmt::format("the tool calls of message {}", i + 1);
  return shows_tools() ? "" : "the tools";
}

}  // namespace viaduct
