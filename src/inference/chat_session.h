#pragma once
// A conversation with a model: messages go in, answers come out and become part of it.

#include <optional>
#include <string>
#include <vector>

#include "conversation/conversation.h"
#include "generate/chat_prompts.h"
#include "inference/answers.h"

namespace viaduct {

struct ChatSettings {
  std::string system;  // its first message; empty: none
  int64_t positions = 0;
  int64_t max_new_tokens = 0;              // of an answer, or fewer if the positions end
  std::vector<std::string> adapters = {};  // names of those of the generator, in their order
  std::vector<std::string> images = {};    // files of pictures of the first message that stays
};

/// The conversation has no room for an answer.
class ContextFull : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// ConfigError that begins with `where` if the template has no place for a system message.
void check_system(const ChatPrompts& prompts, const std::string& text, const std::string& where);

class ChatSession {
 public:
  /// `prompts` and `answer` must outlive it.
  ChatSession(const ChatPrompts& prompts, ChatSettings settings, AnswerPrompt answer);

  const Conversation& conversation() const { return conversation_; }
  const std::string& system() const { return settings_.system; }
  bool reads_images() const { return prompts_.reads_images(); }
  const std::vector<std::string>& adapters() const { return settings_.adapters; }
  /// The name of the adapter that answers; "": none of these.
  std::string adapter() const;
  /// From here on another one answers, in the same conversation; "": none of them. ConfigError of
  /// adapter_number, and nothing changes.
  void use_adapter(const std::string& name, const std::string& where);

  /// Begins a new conversation, which has the system message alone. Random numbers depend on the
  /// number of the conversation.
  void reset();
  /// The same with another system message. ConfigError of check_system, and nothing changes.
  void set_system(std::string text);
  /// Adds a message that is not answered: an example's, or a system message in between.
  void add(ChatMessage message);

  struct Asked {
    Answer answer;
    int64_t prompt_tokens = 0;
    bool context_full = false;      // the answer ends because the positions do
    std::string hidden_tools = {};  // PromptText::hidden_tools
  };
  /// Answers a message after those so far. Message and answer become part of the conversation,
  /// unless nothing was answered because of an interruption, or there is an error: errors of
  /// ChatPrompts::prompt, and ContextFull. `where`: for messages.
  Asked ask(ChatMessage message, const std::string& where,
            FunctionRef<void(const std::string&)> piece);
  /// The same for a whole conversation, which takes the place of the one so far; it gets the system
  /// message unless it has one. ConfigError while ChatSettings::images wait for a message.
  Asked ask(Conversation conversation, const std::string& where,
            FunctionRef<void(const std::string&)> piece);

 private:
  Asked answer(Conversation next, const std::string& where, bool begins,
               FunctionRef<void(const std::string&)> piece);

  const ChatPrompts& prompts_;
  ChatSettings settings_;
  AnswerPrompt answer_;
  Conversation conversation_;
  int64_t number_ = 0;   // of the conversation
  int64_t adapter_ = 0;  // Prompt::adapter
  bool asked_ = false;   // whether it has a question
};

}  // namespace viaduct
