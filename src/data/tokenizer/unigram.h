#pragma once
// The unigram model (Kudo 2018) of a tokenizer.json: the cut of a piece into tokens whose scores
// (logarithms of probabilities) have the highest sum.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer/piece_model.h"

namespace viaduct {

struct UnigramSpec {
  std::vector<std::pair<std::string, double>> vocabulary;  // by id: token and score
  std::optional<int32_t> unknown_id;
  /// What has no token becomes the tokens of its bytes, <0x00> to <0xFF>, if there are such.
  bool byte_fallback = false;
};

/// A score as Hugging Face's tokenizers reads it from a file. Its reader takes the digits as one
/// integer and scales that by a power of ten, which is not always the nearest number: of cuts with
/// equal sums another one may win.
double score_as_read(double written);

class Unigram final : public PieceModel {
 public:
  /// IoError (naming `source`) for an empty vocabulary, tokens that are not UTF-8, scores that are
  /// no numbers, and an unknown id outside of the vocabulary.
  Unigram(UnigramSpec spec, std::string_view source);

  std::string_view kind() const override { return "Unigram"; }
  std::unique_ptr<Buffers> make_buffers() const override;
  /// Linear in the piece. Error for a character without a token if the model has no unknown token.
  UnknownBytes encode(std::string_view piece, Buffers& buffers,
                      std::vector<int32_t>& ids) const override;
  UnknownBytes encode_parts(std::string_view piece, Buffers& buffers, std::vector<int32_t>& ids,
                            std::vector<PiecePart>& parts) const override;
  bool encode_bytes(std::string_view bytes, Buffers& buffers,
                    std::vector<int32_t>& ids) const override;
  std::optional<int32_t> unknown_token() const override { return spec_.unknown_id; }
  std::string bytes_of(std::string_view spelling) const override { return std::string(spelling); }
  int32_t size() const override { return static_cast<int32_t>(spec_.vocabulary.size()); }
  int32_t token_count() const override { return size(); }
  std::optional<int32_t> find(std::string_view token) const override;
  std::optional<std::string> token(int32_t id) const override;

 private:
  struct PathBuffers;

  /// The child of a node of the tree of tokens; 0: none.
  uint32_t child(uint32_t node, uint8_t byte) const {
    const auto found = children_.find(uint64_t{node} << 8 | byte);
    return found == children_.end() ? 0 : found->second;
  }
  UnknownBytes encode(std::string_view piece, Buffers& buffers, std::vector<int32_t>& ids,
                      std::vector<PiecePart>* parts) const;
  /// Appends the tokens of the bytes, if all have one.
  bool append_byte_tokens(std::string_view bytes, std::vector<int32_t>& ids) const;
  void append_unknown(std::string_view text, UnknownBytes& unknown,
                      std::vector<int32_t>& ids) const;

  UnigramSpec spec_;
  std::string source_;
  double unknown_score_ = 0;
  std::unordered_map<std::string, int32_t> id_of_;
  std::unordered_map<uint64_t, uint32_t> children_;  // (node, byte) to node; 0 is the root
  std::vector<int32_t> token_of_;                    // by node; -1: none
  std::array<int32_t, 256> id_of_byte_token_{};
};

}  // namespace viaduct
