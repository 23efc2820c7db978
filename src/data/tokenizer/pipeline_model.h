#pragma once
// Normalizer, cuts and a model of pieces one after the other: the tokenizers of a tokenizer.json.

#include <memory>

#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/piece_model.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/token_model.h"

namespace viaduct {

class PipelineModel final : public TokenModel {
 public:
  PipelineModel(Normalizer normalizer, PreTokenizer pre_tokenizer,
                std::unique_ptr<const PieceModel> pieces);

  std::string_view kind() const override { return pieces_->kind(); }
  bool is_bpe() const override { return pieces_->is_bpe(); }
  std::unique_ptr<Scratch> make_scratch() const override;
  std::optional<std::string> normalize(std::string_view text, Scratch& scratch) const override;
  void encode(std::string_view normalized, Scratch& scratch,
              std::vector<int32_t>& ids) const override;
  bool tells_places() const override { return true; }
  bool needs_places(bool changed) const override { return pre_tokenizer_.needs_places(changed); }
  void normalize_tracked(TrackedText& text, Scratch& scratch) const override;
  void encode_tracked(const TrackedView& normalized, Scratch& scratch, std::vector<int32_t>& ids,
                      TokenPlaces* places) const override;
  bool encode_bytes(std::string_view bytes, Scratch& scratch,
                    std::vector<int32_t>& ids) const override;
  std::optional<int32_t> unknown_token() const override { return pieces_->unknown_token(); }
  bool decode(int32_t id, DecodeState& state, std::string& bytes) const override;
  int32_t size() const override { return pieces_->size(); }
  int32_t token_count() const override { return pieces_->token_count(); }
  std::optional<int32_t> find(std::string_view token) const override {
    return pieces_->find(token);
  }
  std::optional<std::string> token(int32_t id) const override { return pieces_->token(id); }

  /// Only the model: appends the ids of one piece.
  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct PieceScratch;

  void encode_piece(const TrackedView& piece, PieceScratch& scratch, std::vector<int32_t>& ids,
                    TokenPlaces& places) const;
  /// Appends the parts of a piece to scratch.cached_parts.
  UnknownBytes append_parts(std::string_view piece, PieceScratch& scratch) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<const PieceModel> pieces_;
};

}  // namespace viaduct
