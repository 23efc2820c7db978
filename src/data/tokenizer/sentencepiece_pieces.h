#pragma once
// A SentencePiece model file (Kudo and Richardson 2018; sentencepiece_model.proto): its pieces and
// what is done to a text before it is cut into them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

struct SentencePieces {
  struct Piece {
    std::string text;
    float score = 0;
    /// 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte: GGUF's numbers too.
    int32_t type = 1;
  };
  static constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6;

  std::vector<Piece> pieces;
  bool bpe = true;       // pairs are merged
  bool unigram = false;  // else words or characters, if it is not bpe
  bool byte_fallback = false;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  std::string characters;  // the table that normalizes characters (charsmap.h); empty: none
  std::string begin = "<s>", end = "</s>", unknown = "<unk>";
  int32_t begin_id = 1, end_id = 2, unknown_id = 0, padding_id = -1;  // -1: none
};

/// Reads the text of a tokenizer.model; IoError that starts with `where` if it is not one.
SentencePieces read_sentencepieces(std::string_view model, const std::string& where);

/// The text of a tokenizer.model of BPE that SentencePiece's library reads. The ids are those of
/// `begin`, `end` and `unknown`.
std::string write_sentencepieces(const SentencePieces& pieces);

}  // namespace viaduct
