#pragma once
// Rows of conversations as tokens, with the mask that says which of them are learned.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/answers.h"
#include "conversation/control_tokens.h"
#include "data/tokenizer/tokenizer.h"
#include "image/picture_file.h"

namespace viaduct {

/// A row: its ids, 1 for each that is learned, and its pictures in the order of their places.
struct ChatRow {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  std::vector<PictureFile> images = {};
  int64_t unknown_bytes = 0;  // of the text, without a token

  /// The number of learned tokens.
  int64_t scored() const;
};

/// Encodes texts in one piece with special tokens recognised and none added, as transformers'
/// apply_chat_template does. A token is learned if it overlaps an answer. Belongs to one thread.
class ChatEncoder {
 public:
  /// The tokenizer must outlive it.
  explicit ChatEncoder(const Tokenizer& tokenizer);

  /// Marks of ControlTokens in the text: these tokens are encoded as plain text, each piece between
  /// them for itself. IoError where a token's mask cannot be told: the tokenizer changes the text,
  /// and its kind does not say where a token comes from; and for a control token that the tokenizer
  /// makes even of plain text. `apart`: what is before the first answer and the rest are texts of
  /// their own, as a model with an encoder reads them.
  ChatRow encode(ConversationText text, bool apart = false);

  /// The ids of a text alone.
  std::vector<int32_t> ids(std::string_view text);

 private:
  /// Appends the ids of a piece and the bytes of `text` that each comes from. `begins`: the piece
  /// is the first of a text.
  void append(std::string_view text, const TextPiece& piece, bool begins, ChatRow& row,
              std::vector<TextRange>& places);
  /// Returns the bytes without a token.
  int64_t encode_with_places(std::string_view text, bool as_text, std::vector<int32_t>& ids,
                             std::vector<TextRange>& places);

  const Tokenizer& tokenizer_;
  EncodeCache cache_;
  std::vector<int32_t> newline_;
  std::vector<TokenSpan> spans_;
};

}  // namespace viaduct
