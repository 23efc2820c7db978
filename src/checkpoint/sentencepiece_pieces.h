#pragma once
// The pieces of a SentencePiece model file (sentencepiece_model.proto): what GGUF files hold of it.

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
  std::vector<Piece> pieces;
  bool bpe = true;  // else unigram, or a kind that is not common
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
  bool normalizes = false;  // by a table of characters (NFKC …), which is not read
  std::string begin = "<s>", end = "</s>", unknown = "<unk>";  // of model files that are written
};

/// Reads the text of a tokenizer.model; IoError that starts with `where` if it is not one.
SentencePieces read_sentencepieces(std::string_view model, const std::string& where);

/// The text of a tokenizer.model of BPE that SentencePiece's library reads.
std::string write_sentencepieces(const SentencePieces& pieces);

}  // namespace viaduct
