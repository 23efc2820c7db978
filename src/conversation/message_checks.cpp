#include "conversation/message_checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/json_reader.h"
#include "conversation/line_members.h"

namespace viaduct {
namespace {

using Problem = ConversationProblem;

constexpr std::array<std::string_view, 8> kRoles = {
    "system", "developer", "user", "assistant", "tool", "function", "ipython", "observation"};

}  // namespace

void check_role(const ChatMessage& message) {
  if (std::find(kRoles.begin(), kRoles.end(), message.role) != kRoles.end()) return;
  if (message.value.as_map().find("role") == nullptr)
    invalid_line(Problem::unknown_role, "a message has no role");
  invalid_line(Problem::unknown_role, "a message has the role '{}', expected one of {}",
               shown_name(message.role), fmt::join(kRoles, ", "));
}

void check_content(const TemplateValue& content, bool has_images) {
  if (content.is_text()) return;
  if (!content.is_list())
    invalid_line(Problem::wrong_member, "the content of a message is {}", type_name(content));
  for (const TemplateValue& part : content.as_list().items) {
    const TemplateValue* type = part.is_map() ? member(part.as_map(), "type") : nullptr;
    if (type == nullptr || !type->is_text())
      invalid_line(Problem::unknown_part, "a part of a message's content has no type");
    if (has_images && type->as_text() == "image") continue;
    if (type->as_text() != "text") {
      invalid_line(Problem::unknown_part,
                   "a part of a message's content is of the type '{}', expected 'text'",
                   shown_name(type->as_text()));
    }
    text_member(part.as_map(), "text");
  }
}

void check_learnable(const Conversation& conversation) {
  if (conversation.messages.empty()) invalid_line(Problem::no_messages, "there are no messages");
  bool answered = false;
  for (const ChatMessage& message : conversation.messages) {
    const TemplateMap& map = message.value.as_map();
    check_role(message);
    const TemplateValue* content = map.find("content");
    if (content != nullptr) check_content(*content, !message.images.empty());
    if (!message.is_answer()) {
      if (content == nullptr) {
        invalid_line(Problem::wrong_member, "a message of the role '{}' has no content",
                     message.role);
      }
      continue;
    }
    answered = true;
    if (!message.has_words() && !message.has("tool_calls")) {
      invalid_line(Problem::empty_answer,
                   "a message of the assistant has neither content nor tool calls");
    }
  }
  if (!answered) invalid_line(Problem::no_answer, "there is no message of the assistant");
}

void check_line_system(const Conversation& conversation) {
  const auto& messages = conversation.messages;
  if (conversation.plain) {
    invalid_line(
        Problem::wrong_member,
        "'system' has no place in a text without messages; expected it in the prompt, or in "
        "Megatron's form named by the prompt template: {{system}}");
  }
  if (messages.size() > 1 && messages[1].is_instruction()) {
    invalid_line(Problem::two_system_prompts,
                 "two system prompts: the line's 'system', and a first message of the role '{}'",
                 messages[1].role);
  }
}

}  // namespace viaduct
