#include "data/tokenizer/pipeline_model.h"

#include <unordered_map>

#include "base/hash.h"
#include "data/tokenizer/byte_alphabet.h"

namespace viaduct {
namespace {

constexpr size_t kCachedPieces = 1 << 16, kCachedPieceBytes = 64;

}  // namespace

/// Pieces repeat, so their ids are cached; the cache is cleared when it is full.
struct PipelineModel::PieceScratch : TokenModel::Scratch {
  struct HashBytes {
    using is_transparent = void;
    size_t operator()(std::string_view bytes) const { return hash64(bytes); }
  };
  struct Range {
    uint32_t begin = 0, end = 0;
    UnknownBytes unknown;
  };
  RegexScratch regex;
  std::unique_ptr<PieceModel::Buffers> buffers;
  std::unordered_map<std::string, Range, HashBytes, std::equal_to<>> cache;
  std::vector<int32_t> cached_ids;
};

PipelineModel::PipelineModel(Normalizer normalizer, PreTokenizer pre_tokenizer,
                             std::unique_ptr<const PieceModel> pieces)
    : normalizer_(std::move(normalizer)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      pieces_(std::move(pieces)) {}

std::unique_ptr<TokenModel::Scratch> PipelineModel::make_scratch() const {
  auto scratch = std::make_unique<PieceScratch>();
  scratch->buffers = pieces_->make_buffers();
  return scratch;
}

std::optional<std::string> PipelineModel::normalize(std::string_view text, Scratch& scratch) const {
  return normalizer_.normalize(text, static_cast<PieceScratch&>(scratch).regex);
}

void PipelineModel::encode(std::string_view normalized, Scratch& scratch,
                           std::vector<int32_t>& ids) const {
  pre_tokenizer_.split(normalized, scratch.at_start, static_cast<PieceScratch&>(scratch).regex,
                       [&](std::string_view piece) { encode_piece(piece, scratch, ids); });
}

void PipelineModel::normalize_tracked(TrackedText& text, Scratch& scratch) const {
  normalizer_.normalize(text, static_cast<PieceScratch&>(scratch).regex);
}

void PipelineModel::encode_tracked(const TrackedView& normalized, Scratch& any_scratch,
                                   std::vector<int32_t>& ids, TokenPlaces* places) const {
  auto& scratch = static_cast<PieceScratch&>(any_scratch);
  pre_tokenizer_.split(normalized, scratch.regex, [&](const TrackedView& piece) {
    if (places == nullptr) {
      encode_piece(piece.text, scratch, ids);
    } else {
      encode_piece(piece, scratch, ids, *places);
    }
  });
}

void PipelineModel::encode_piece(const TrackedView& given, PieceScratch& scratch,
                                 std::vector<int32_t>& ids, TokenPlaces& places) const {
  TrackedText letters;
  TrackedView piece = given;
  if (pieces_->of_letters()) {
    for (size_t byte = 0; byte < given.text.size(); ++byte)
      letters.append(spell_bytes(given.text.substr(byte, 1)), given.places[byte]);
    piece = letters.view();
  }
  std::vector<PiecePart> parts;
  const size_t before = ids.size();
  scratch.unknown.add(pieces_->encode_parts(piece.text, *scratch.buffers, ids, parts));
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [begin, end, unknown] = parts[i];
    TextPlace place{begin, end};
    if (begin < end) place = {piece.places[begin].begin, piece.places[end - 1].end};
    const auto spelling = pieces_->token(ids[before + i]);
    places.add(place, unknown ? piece.text.substr(begin, end - begin) : *spelling);
  }
}

void PipelineModel::encode_piece(std::string_view piece, Scratch& any_scratch,
                                 std::vector<int32_t>& ids) const {
  auto& scratch = static_cast<PieceScratch&>(any_scratch);
  const bool cacheable = piece.size() <= kCachedPieceBytes;
  if (cacheable) {
    const auto found = scratch.cache.find(piece);
    if (found != scratch.cache.end()) {
      ids.insert(ids.end(), scratch.cached_ids.begin() + found->second.begin,
                 scratch.cached_ids.begin() + found->second.end);
      scratch.unknown.add(found->second.unknown);
      return;
    }
  }
  const size_t before = ids.size();
  const UnknownBytes unknown = pieces_->encode(piece, *scratch.buffers, ids);
  scratch.unknown.add(unknown);
  if (!cacheable) return;
  if (scratch.cache.size() >= kCachedPieces) {
    scratch.cache.clear();
    scratch.cached_ids.clear();
  }
  const auto begin = static_cast<uint32_t>(scratch.cached_ids.size());
  scratch.cached_ids.insert(scratch.cached_ids.end(), ids.begin() + static_cast<int64_t>(before),
                            ids.end());
  scratch.cache.emplace(
      piece, PieceScratch::Range{begin, static_cast<uint32_t>(scratch.cached_ids.size()), unknown});
}

bool PipelineModel::encode_bytes(std::string_view bytes, Scratch& scratch,
                                 std::vector<int32_t>& ids) const {
  return pieces_->encode_bytes(bytes, *static_cast<PieceScratch&>(scratch).buffers, ids);
}

bool PipelineModel::decode(int32_t id, DecodeState&, std::string& bytes) const {
  const auto spelling = pieces_->token(id);
  if (!spelling) return false;
  bytes += pieces_->bytes_of(*spelling);
  return true;
}

}  // namespace viaduct
