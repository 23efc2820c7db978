#pragma once
// Byte-pair encoding (Sennrich et al. 2016). Byte-level, as GPT-2 introduced it (Radford et al.
// 2019, section 2.2) and Llama-3, Qwen and others use it: a piece's UTF-8 bytes are merged by rank.
// Or of characters, with tokens for the bytes of those that the vocabulary lacks, as
// SentencePiece's models of Llama-2, Mistral and Gemma are written in a tokenizer.json.

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
#include "data/tokenizer/piece_model.h"

namespace viaduct {

/// What defines a BPE model.
struct BpeSpec {
  /// Pieces are bytes, and tokens are spelled in the byte alphabet (byte_alphabet.h); otherwise
  /// both are text.
  bool byte_level = true;
  /// Tokens with their ids.
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  /// Pairs of tokens in order of rank.
  std::vector<std::pair<std::string, std::string>> merges;
  /// A piece that is a token is taken whole, regardless of the merges.
  bool ignore_merges = false;
  /// A character without a token becomes the tokens of its bytes, <0x00> to <0xFF>, if there are
  /// such.
  bool byte_fallback = false;
  /// Stands for characters that the vocabulary has no token for; none: they are left out.
  std::optional<std::string> unknown_token;
  /// One unknown token for several such characters in a row.
  bool fuse_unknown = false;
};

class Bpe final : public PieceModel {
 public:
  /// IoError (naming `source`) for ids that are negative, given twice or far beyond the number of
  /// tokens, for merges of or into what is not in the vocabulary, and for an unknown token that is
  /// needed and not in the vocabulary.
  Bpe(BpeSpec spec, std::string_view source);

  std::string_view kind() const override { return byte_level_ ? "byte-level BPE" : "BPE"; }
  bool is_bpe() const override { return true; }
  std::unique_ptr<Buffers> make_buffers() const override;
  UnknownBytes encode(std::string_view piece, Buffers& buffers,
                      std::vector<int32_t>& ids) const override;
  UnknownBytes encode_parts(std::string_view piece, Buffers& buffers, std::vector<int32_t>& ids,
                            std::vector<PiecePart>& parts) const override;
  bool of_letters() const override { return byte_level_; }
  bool encode_bytes(std::string_view bytes, Buffers& buffers,
                    std::vector<int32_t>& ids) const override;
  std::optional<int32_t> unknown_token() const override {
    return unknown_id_ < 0 ? std::nullopt : std::optional(unknown_id_);
  }
  std::string bytes_of(std::string_view spelling) const override;
  int32_t size() const override { return static_cast<int32_t>(spelled_.size()); }
  int32_t token_count() const override { return static_cast<int32_t>(id_of_.size()); }
  std::optional<int32_t> find(std::string_view token) const override;
  std::optional<std::string> token(int32_t id) const override;

 private:
  struct MergeBuffers;

  /// The ids of characters one by one, before merging, and the bytes of each.
  UnknownBytes spell_characters(std::string_view piece, std::vector<int32_t>& ids,
                                std::vector<size_t>* bytes_of_ids = nullptr) const;
  UnknownBytes spell_known_bytes(std::string_view piece, std::vector<int32_t>& ids) const;

  bool byte_level_ = true;
  std::unordered_map<std::string, int32_t> id_of_;
  std::vector<const std::string*> spelled_;  // by id, null where there is no token; keys of id_of_
  std::array<int32_t, 256> id_of_byte_{};    // of a byte's letter; -1: no token
  std::array<int32_t, 256> id_of_byte_token_{};  // of <0x00> to <0xFF>; -1: no token
  std::unordered_map<char32_t, int32_t> id_of_character_;
  MergeTable merges_;
  bool ignore_merges_ = false;
  bool byte_fallback_ = false;
  int32_t unknown_id_ = -1;  // -1: unknown characters are left out
  bool fuse_unknown_ = false;
};

}  // namespace viaduct
