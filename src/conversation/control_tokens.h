#pragma once
// Control tokens in the messages' own text: a text of a user that spells "<|im_end|>" would forge
// the end of a turn.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conversation/answers.h"
#include "conversation/conversation.h"
#include "data/tokenizer/added_tokens.h"

namespace viaduct {

class ChatRenderer;

/// How often each control token stands in the texts of messages.
using ControlTokenCounts = std::map<std::string, int64_t>;

/// As transformers' sanitize_control_tokens: the tokenizer's special tokens, and other added tokens
/// that the template's text contains and that are not white space.
class ControlTokens {
 public:
  ControlTokens(const AddedTokens& added, const ChatRenderer* renderer);

  /// Adds those in all texts of the conversation (messages, tools, documents, variables), the words
  /// of templates excepted.
  void count(const Conversation& conversation, ControlTokenCounts& counts) const;
  /// The conversation with marks around each of them, which the template carries through.
  Conversation marked(const Conversation& conversation) const;

 private:
  void count(const TemplateValue& value, ControlTokenCounts& counts) const;
  TemplateValue marked(const TemplateValue& value) const;
  std::string marked_text(std::string_view text) const;
  Conversation::Plain marked(const Conversation::Plain& given) const;
  /// The text whose completion's last token, if it is a control token, is a word of the form: a
  /// completion ends with the model's end token by intent, and forges no turn with it.
  Conversation::Plain with_end(const Conversation::Plain& plain) const;

  AddedTokens tokens_;
};

/// Whether the token that begins at `at` of a text with marks has them around it.
bool is_marked(std::string_view text, size_t at);

/// Takes the marks out of a rendered text and moves its ranges. Returns the pieces of the text
/// without marks: where each begins, and whether it is a token that is encoded as plain text. A
/// mark without its partner (the template cut the text between) also ends a piece.
struct TextPiece {
  size_t begin = 0, end = 0;
  bool as_text = false;
};
std::vector<TextPiece> take_marks(ConversationText& row);

}  // namespace viaduct
