#pragma once
// SentencePiece models (Kudo and Richardson 2018), BPE and unigram, through SentencePiece's
// library.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/token_model.h"

namespace viaduct {

/// A `tokenizer.model`. Each run of text between added tokens is encoded as a separate text (with
/// the leading space that the model adds), and decoding removes that space.
class SentencePieceModel final : public TokenModel {
 public:
  /// IoError, naming `source`, if `serialized` is not a SentencePiece model.
  SentencePieceModel(std::string_view serialized, std::string_view source);
  ~SentencePieceModel() override;

  std::string_view kind() const override { return "SentencePiece"; }
  bool is_bpe() const override;
  std::unique_ptr<Scratch> make_scratch() const override;
  /// Nothing: the library normalizes while it encodes.
  std::optional<std::string> normalize(std::string_view text, Scratch& scratch) const override;
  void encode(std::string_view normalized, Scratch& scratch,
              std::vector<int32_t>& ids) const override;
  bool decode(int32_t id, DecodeState& state, std::string& bytes) const override;
  /// True for the unknown token: its bytes are the library's surface form for it.
  bool decodes_added(int32_t id) const override;
  int32_t size() const override;
  std::optional<int32_t> find(std::string_view token) const override;
  std::optional<std::string> token(int32_t id) const override;

  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  std::optional<int32_t> pad() const;
  /// Control symbols and the unknown token, to be recognised as special tokens.
  std::vector<AddedToken> control_tokens() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace viaduct
