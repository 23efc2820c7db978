#pragma once
// Conversations as prompts of a model: their text by its chat template up to where the answer
// begins, and the ids of that text.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conversation/chat_renderer.h"
#include "conversation/control_tokens.h"
#include "data/tokenizer/tokenizer.h"
#include "generate/prompt_images.h"
#include "generate/prompts.h"

namespace viaduct {

class ChatPrompts {
 public:
  struct Settings {
    TemplateClock clock;  // that strftime_now shows, in every prompt
    /// Encodes control tokens that stand in the messages' own texts as text, so that nobody can
    /// forge a turn with them.
    bool control_tokens_as_text = false;
    /// Of a model that reads images; null: conversations are of texts alone.
    std::shared_ptr<const PromptImages> images = nullptr;
  };
  /// `tokenizer` must outlive it.
  ChatPrompts(ChatRenderer renderer, const Tokenizer& tokenizer, const Settings& settings);
  ChatPrompts(const ChatPrompts&) = delete;
  ChatPrompts& operator=(const ChatPrompts&) = delete;

  /// Text and ids of a conversation, with special tokens recognised and none added, and what of its
  /// tools is not in the text. Contents that are lists of text are joined where the template takes
  /// texts (conversation/text_parts.h). ConfigError if there is nothing to answer: no messages, or
  /// the last one is an answer; where the template refuses the conversation, and for pictures that
  /// cannot be read or have no place in its text.
  PromptText prompt(const Conversation& asked, std::string where) const;

  /// An answer as a later prompt may show it: a model that reads images can write the token that
  /// stands for one, and no picture is there.
  std::string kept_answer(std::string text) const;

  /// Whether messages may have pictures.
  bool reads_images() const { return images_ != nullptr; }
  /// The special token that ends an answer in the template, if it writes one.
  std::optional<int32_t> end_of_turn() const { return end_of_turn_; }

 private:
  std::optional<int32_t> find_end_of_turn() const;
  /// Text and ids of a text with marks of ControlTokens.
  void encode_marked(std::string text, PromptText& prompt) const;
  /// The tokens and values of the conversation's pictures, whose places `text` has. Errors as
  /// `prompt`.
  void add_images(const Conversation& conversation, std::string& text, PromptText& prompt) const;

  const Tokenizer& tokenizer_;
  ChatRenderer renderer_;
  TemplateClock clock_;
  std::shared_ptr<const PromptImages> images_;
  std::optional<int32_t> end_of_turn_;
  std::optional<ControlTokens> control_tokens_;  // that are encoded as text
};

/// A conversation of a line of JSON: an object with `messages`, or another form of conversations.
/// ConfigError that starts with `where` for any other line, and unless `images` for one with
/// pictures.
Conversation read_conversation(const std::string& line, const std::string& where,
                               bool images = false);
/// A message of a line of JSON, an object with `role`. Errors as read_conversation.
ChatMessage read_message(const std::string& line, const std::string& where, bool images = false);
/// A conversation of one message of the user.
Conversation conversation_of(std::string text);

/// Prompts of conversations, made of lines as read by read_prompt_lines: each a JSON object
/// (`jsonl`; a conversation, or a `prompt` in place of its messages, which is a message of the
/// user; its `id` and `adapter` go into PromptText), or the text of a user. ConfigError that lists
/// every line that is no conversation to answer. `images`: files of pictures that every text of a
/// user begins with.
std::vector<PromptText> make_chat_prompts(const std::vector<PromptText>& lines, bool jsonl,
                                          const ChatPrompts& prompts,
                                          const std::vector<std::string>& images = {});

}  // namespace viaduct
