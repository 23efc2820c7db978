#include "conversation/shorten.h"

#include <algorithm>

namespace viaduct {
namespace {

ptrdiff_t at(size_t message) {
  return static_cast<ptrdiff_t>(message);
}

}  // namespace

size_t system_messages(const Conversation& conversation) {
  const auto& messages = conversation.messages;
  const auto first = std::ranges::find_if(
      messages, [](const ChatMessage& message) { return !message.is_instruction(); });
  return static_cast<size_t>(first - messages.begin());
}

std::vector<size_t> later_questions(const Conversation& conversation) {
  const auto& messages = conversation.messages;
  size_t last_answer = messages.size();
  while (last_answer > 0 && !messages[last_answer - 1].is_answer()) --last_answer;
  std::vector<size_t> questions;
  for (size_t i = system_messages(conversation) + 1; i < last_answer; ++i)
    if (messages[i].role == "user") questions.push_back(i);
  return questions;
}

Conversation without_turns_before(const Conversation& conversation, size_t begin) {
  Conversation shorter = conversation;
  const size_t kept = std::min(system_messages(conversation), begin);
  auto& messages = shorter.messages;
  messages.erase(messages.begin() + at(kept), messages.begin() + at(begin));
  const size_t removed = begin - kept;
  shorter.prompt_messages -= std::min(shorter.prompt_messages, removed);
  return shorter;
}

Conversation first_messages(const Conversation& conversation, size_t count) {
  Conversation first = conversation;
  auto& messages = first.messages;
  messages.erase(messages.begin() + at(std::min(count, messages.size())), messages.end());
  first.prompt_messages = std::min(first.prompt_messages, messages.size());
  return first;
}

std::string first_question(const Conversation& conversation) {
  const size_t first = system_messages(conversation);
  if (first == conversation.messages.size() || conversation.messages[first].role != "user")
    return "";
  const TemplateValue* content = conversation.messages[first].value.as_map().find("content");
  return content != nullptr && content->is_text() ? content->as_text() : std::string();
}

Conversation with_first_question(const Conversation& conversation, std::string text) {
  Conversation other = conversation;
  ChatMessage& message = other.messages[system_messages(conversation)];
  TemplateMap map = message.value.as_map();
  map.set("content", TemplateValue(std::move(text)));
  message.value = TemplateValue::map(std::move(map));
  return other;
}

}  // namespace viaduct
