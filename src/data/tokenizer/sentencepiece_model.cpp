#include "data/tokenizer/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <charconv>

#include "base/error.h"
#include "data/tokenizer/protobuf_fields.h"

namespace viaduct {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581 stands for a space

/// What the library does not expose (sentencepiece_model.proto): of ModelProto's field 3, the
/// NormalizerSpec, the space flags, its fields 3 and 4, both true by default; of field 2, the
/// TrainerSpec, whether field 3 says that the model is a BPE (2).
struct ModelRules {
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool is_bpe = false;
};

ModelRules rules_of(std::string_view serialized) {
  ModelRules rules;
  ProtobufFields model(serialized);
  while (const auto field = model.next()) {
    if (field->number != 2 && field->number != 3) continue;
    ProtobufFields spec(field->content);
    while (const auto entry = spec.next()) {
      if (field->number == 2) {
        if (entry->number == 3) rules.is_bpe = entry->value == 2;
        continue;
      }
      if (entry->number == 3) rules.add_dummy_prefix = entry->value != 0;
      if (entry->number == 4) rules.remove_extra_whitespaces = entry->value != 0;
    }
  }
  return rules;
}

std::optional<int32_t> id_or_none(int id) {
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

}  // namespace

struct SentencePieceModel::Library {
  sentencepiece::SentencePieceProcessor processor;
  ModelRules rules;
  std::string unknown_text;
};

SentencePieceModel::SentencePieceModel(std::string_view serialized, std::string_view source)
    : library_(std::make_unique<Library>()) {
  auto& processor = library_->processor;
  const auto status = processor.LoadFromSerializedProto(serialized);
  VIADUCT_CHECK(IoError, status.ok(), "{}: not a SentencePiece model: {}", source,
                status.ToString());
  VIADUCT_CHECK(IoError, processor.GetPieceSize() > 0, "{}: the SentencePiece model is empty",
                source);
  library_->rules = rules_of(serialized);
  if (processor.unk_id() >= 0) {
    library_->unknown_text = processor.DecodeIds({processor.unk_id()});
  }
}

SentencePieceModel::~SentencePieceModel() = default;

bool SentencePieceModel::is_bpe() const {
  return library_->rules.is_bpe;
}

std::unique_ptr<TokenModel::Scratch> SentencePieceModel::make_scratch() const {
  return std::make_unique<Scratch>();
}

std::optional<std::string> SentencePieceModel::normalize(std::string_view, Scratch&) const {
  return std::nullopt;
}

void SentencePieceModel::encode(std::string_view normalized, Scratch&,
                                std::vector<int32_t>& ids) const {
  std::vector<int> pieces;
  const auto status = library_->processor.Encode(normalized, &pieces);
  VIADUCT_CHECK(Error, status.ok(), "SentencePiece cannot encode {} bytes: {}", normalized.size(),
                status.ToString());
  ids.insert(ids.end(), pieces.begin(), pieces.end());
}

bool SentencePieceModel::decode(int32_t id, DecodeState& state, std::string& bytes) const {
  const auto& processor = library_->processor;
  if (id < 0 || id >= processor.GetPieceSize()) return false;
  std::string_view piece = processor.IdToPiece(id);
  const size_t before = bytes.size();
  bool first_space_taken = false;
  if (processor.IsByte(id)) {  // spelled <0xAB>
    unsigned value = 0;
    if (piece.size() == 6) std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
    bytes.push_back(static_cast<char>(value));
  } else if (processor.IsControl(id)) {
    bytes += piece;
  } else if (processor.IsUnknown(id)) {
    bytes += library_->unknown_text;
  } else {
    const ModelRules& rules = library_->rules;
    if (state.at_start && (rules.add_dummy_prefix || rules.remove_extra_whitespaces) &&
        piece.starts_with(kSpaceMark)) {
      piece.remove_prefix(kSpaceMark.size());
      // If extra spaces are removed, no space precedes the first other character.
      first_space_taken = !rules.remove_extra_whitespaces;
    }
    while (!piece.empty()) {
      const bool space = piece.starts_with(kSpaceMark);
      bytes += space ? ' ' : piece.front();
      piece.remove_prefix(space ? kSpaceMark.size() : 1);
    }
  }
  if (bytes.size() > before || first_space_taken) state.at_start = false;
  return true;
}

bool SentencePieceModel::decodes_added(int32_t id) const {
  return id >= 0 && id < size() && library_->processor.IsUnknown(id);
}

int32_t SentencePieceModel::size() const {
  return library_->processor.GetPieceSize();
}

std::optional<int32_t> SentencePieceModel::find(std::string_view token) const {
  const int id = library_->processor.PieceToId(token);
  // The library returns the unknown token for unknown pieces.
  if (id < 0 || id >= size() || library_->processor.IdToPiece(id) != token) return std::nullopt;
  return id;
}

std::optional<std::string> SentencePieceModel::token(int32_t id) const {
  if (id < 0 || id >= size()) return std::nullopt;
  return library_->processor.IdToPiece(id);
}

std::optional<int32_t> SentencePieceModel::bos() const {
  return id_or_none(library_->processor.bos_id());
}
std::optional<int32_t> SentencePieceModel::eos() const {
  return id_or_none(library_->processor.eos_id());
}
std::optional<int32_t> SentencePieceModel::pad() const {
  return id_or_none(library_->processor.pad_id());
}

std::vector<AddedToken> SentencePieceModel::control_tokens() const {
  std::vector<AddedToken> tokens;
  for (int32_t id = 0; id < size(); ++id) {
    if (!library_->processor.IsControl(id) && !library_->processor.IsUnknown(id)) continue;
    AddedToken token;
    token.id = id;
    token.content = library_->processor.IdToPiece(id);
    token.special = true;
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace viaduct
