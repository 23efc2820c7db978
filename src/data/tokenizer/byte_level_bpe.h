#pragma once
// Byte-level byte-pair encoding as GPT-2 introduced it (Radford et al. 2019, section 2.2) and
// Llama-3, Qwen and others use it: the text is normalized and cut into pieces by regular
// expressions, each piece's UTF-8 bytes are merged by rank.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer/bpe_merges.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/token_model.h"

namespace viaduct {

/// What defines a byte-level BPE model.
struct ByteLevelBpeSpec {
  /// Tokens spelled in the byte alphabet (byte_alphabet.h), with their ids.
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  /// Pairs of tokens in order of rank.
  std::vector<std::pair<std::string, std::string>> merges;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  /// A piece that is a token is taken whole, regardless of the merges.
  bool ignore_merges = false;
  /// Stands for bytes that the vocabulary has no token for; none: they are left out.
  std::optional<std::string> unknown_token;
  /// One unknown token for several such bytes in a row.
  bool fuse_unknown = false;
};

class ByteLevelBpe final : public TokenModel {
 public:
  /// IoError (naming `source`) for ids that are negative, given twice or far beyond the number of
  /// tokens, for merges of or into what is not in the vocabulary, and for an unknown token that is
  /// needed and not in the vocabulary.
  ByteLevelBpe(ByteLevelBpeSpec spec, std::string_view source);

  std::string_view kind() const override { return "byte-level BPE"; }
  std::unique_ptr<Scratch> make_scratch() const override;
  std::optional<std::string> normalize(std::string_view text) const override;
  void encode(std::string_view normalized, Scratch& scratch,
              std::vector<int32_t>& ids) const override;
  bool encode_bytes(std::string_view bytes, Scratch& scratch,
                    std::vector<int32_t>& ids) const override;
  std::optional<int32_t> unknown_token() const override {
    return unknown_id_ < 0 ? std::nullopt : std::optional(unknown_id_);
  }
  bool decode(int32_t id, DecodeState& state, std::string& bytes) const override;
  int32_t size() const override { return static_cast<int32_t>(spelled_.size()); }
  std::optional<int32_t> find(std::string_view token) const override;
  std::optional<std::string> token(int32_t id) const override;

  /// Only merges: appends the ids of one piece of any bytes.
  void encode_piece(std::string_view bytes, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct PieceScratch;

  std::unordered_map<std::string, int32_t> id_of_;
  std::vector<const std::string*> spelled_;  // by id, null where there is no token; keys of id_of_
  std::array<int32_t, 256> id_of_byte_{};    // -1: no token
  MergeTable merges_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  bool ignore_merges_ = false;
  int32_t unknown_id_ = -1;  // -1: unknown bytes are left out
  bool fuse_unknown_ = false;
};

}  // namespace viaduct
