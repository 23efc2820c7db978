#include "inference/chat_session.h"

#include <algorithm>

#include "base/error.h"
#include "conversation/message_images.h"
#include "generate/adapter_choice.h"

namespace viaduct {

void check_system(const ChatPrompts& prompts, const std::string& text, const std::string& where) {
  Conversation first = conversation_of("Hello");
  first.messages.insert(first.messages.begin(), ChatMessage::of_text("system", text));
  (void)prompts.prompt(first, where);
}

ChatSession::ChatSession(const ChatPrompts& prompts, ChatSettings settings, AnswerPrompt answer)
    : prompts_(prompts), settings_(std::move(settings)), answer_(answer) {
  reset();
}

void ChatSession::reset() {
  if (std::exchange(asked_, false)) ++number_;
  conversation_ = {};
  if (!settings_.system.empty())
    conversation_.messages.push_back(ChatMessage::of_text("system", settings_.system));
}

void ChatSession::set_system(std::string text) {
  check_system(prompts_, text, "the system message");
  settings_.system = std::move(text);
  reset();
}

std::string ChatSession::adapter() const {
  return adapter_ == 0 ? "" : settings_.adapters[static_cast<size_t>(adapter_ - 1)];
}

void ChatSession::use_adapter(const std::string& name, const std::string& where) {
  adapter_ = adapter_number(name, settings_.adapters, where);
}

void ChatSession::add(ChatMessage message) {
  conversation_.messages.push_back(std::move(message));
}

ChatSession::Asked ChatSession::ask(ChatMessage message, const std::string& where,
                                    FunctionRef<void(const std::string&)> piece) {
  Conversation next = conversation_;
  next.messages.push_back(settings_.images.empty()
                              ? std::move(message)
                              : with_images(std::move(message), settings_.images));
  Asked asked = answer(std::move(next), where, false, piece);
  if (!images_of(conversation_).empty()) settings_.images.clear();
  return asked;
}

ChatSession::Asked ChatSession::ask(Conversation conversation, const std::string& where,
                                    FunctionRef<void(const std::string&)> piece) {
  VIADUCT_CHECK(
      ConfigError, settings_.images.empty(),
      "{}: --image {} is for a message; a line of a whole conversation names its pictures "
      "itself",
      where, settings_.images.front());
  auto& messages = conversation.messages;
  const bool has_system = !messages.empty() && messages.front().is_instruction();
  if (!has_system && !settings_.system.empty() && !messages.empty())
    messages.insert(messages.begin(), ChatMessage::of_text("system", settings_.system));
  return answer(std::move(conversation), where, true, piece);
}

ChatSession::Asked ChatSession::answer(Conversation next, const std::string& where, bool begins,
                                       FunctionRef<void(const std::string&)> piece) {
  const PromptText text = prompts_.prompt(next, where);
  const int64_t number = number_ + (begins && asked_ ? 1 : 0);
  Prompt prompt{number, *text.ids};
  prompt.adapter = adapter_;
  prompt.images = text.images;
  const int64_t room = settings_.positions - prompt.prompt_tokens();
  VIADUCT_CHECK(ContextFull, room > 0,
                "{}: the conversation has {} tokens, which leave no room for an answer in the {} "
                "positions of the model",
                where, prompt.prompt_tokens(), settings_.positions);
  prompt.max_new_tokens = std::min(settings_.max_new_tokens, room);
  Asked asked{answer_(prompt, piece), prompt.prompt_tokens()};
  const Generated& generated = asked.answer.generated;
  asked.context_full = generated.reason == StopReason::length && prompt.max_new_tokens == room;
  asked.hidden_tools = text.hidden_tools;
  asked_ = true;
  number_ = number;
  if (generated.reason == StopReason::interrupted && asked.answer.text.empty()) return asked;
  next.messages.push_back(
      ChatMessage::of_text("assistant", prompts_.kept_answer(asked.answer.text)));
  conversation_ = std::move(next);
  return asked;
}

}  // namespace viaduct
