#include "data/tokenizer/pipeline_model.h"

#include <unordered_map>

#include "base/hash.h"
#include "data/tokenizer/byte_alphabet.h"

namespace viaduct {
namespace {

constexpr size_t kCachedPieces = 1 << 16, kCachedPieceBytes = 64;

}  // namespace

/// Pieces repeat, so their ids are cached, and the parts of those whose places are asked for; a
/// cache is cleared when it is full.
struct PipelineModel::PieceScratch : TokenModel::Scratch {
  struct HashBytes {
    using is_transparent = void;
    size_t operator()(std::string_view bytes) const { return hash64(bytes); }
  };
  struct Range {
    uint32_t begin = 0, end = 0;
    UnknownBytes unknown;
  };
  using Ranges = std::unordered_map<std::string, Range, HashBytes, std::equal_to<>>;
  /// A token of a piece: from the first byte of its bytes up to and with the last one.
  struct Part {
    int32_t id = 0;
    uint32_t first = 0, last = 0;
    bool has_bytes = false;  // else `first` and `last` are what encode_parts says
    TokenPlaces::Spaces spaces = {};
  };
  RegexScratch regex;
  std::unique_ptr<PieceModel::Buffers> buffers;
  Ranges cache, parts_cache;
  std::vector<int32_t> cached_ids;
  std::vector<Part> cached_parts;
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
  return normalizer_.normalize(text, static_cast<PieceScratch&>(scratch).regex, scratch.in_middle);
}

void PipelineModel::encode(std::string_view normalized, Scratch& scratch,
                           std::vector<int32_t>& ids) const {
  pre_tokenizer_.split(normalized, {scratch.at_start, scratch.in_middle},
                       static_cast<PieceScratch&>(scratch).regex,
                       [&](std::string_view piece) { encode_piece(piece, scratch, ids); });
}

void PipelineModel::normalize_tracked(TrackedText& text, Scratch& scratch) const {
  normalizer_.normalize(text, static_cast<PieceScratch&>(scratch).regex, scratch.in_middle);
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

UnknownBytes PipelineModel::append_parts(std::string_view piece, PieceScratch& scratch) const {
  std::string letters;
  std::vector<uint32_t> byte_of;  // of each byte of the letters
  std::string_view spelled = piece;
  if (pieces_->of_letters()) {
    for (size_t byte = 0; byte < piece.size(); ++byte) {
      letters += spell_bytes(piece.substr(byte, 1));
      byte_of.resize(letters.size(), static_cast<uint32_t>(byte));
    }
    spelled = letters;
  }
  std::vector<int32_t> ids;
  std::vector<PiecePart> parts;
  const UnknownBytes unknown = pieces_->encode_parts(spelled, *scratch.buffers, ids, parts);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [begin, end, is_unknown] = parts[i];
    PieceScratch::Part part{ids[i], static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
    part.has_bytes = begin < end;
    if (part.has_bytes) {
      --part.last;
      if (!byte_of.empty()) part.first = byte_of[part.first], part.last = byte_of[part.last];
    }
    part.spaces = TokenPlaces::spaces_of(
        is_unknown ? std::string(spelled.substr(begin, end - begin)) : *pieces_->token(ids[i]));
    scratch.cached_parts.push_back(part);
  }
  return unknown;
}

void PipelineModel::encode_piece(const TrackedView& piece, PieceScratch& scratch,
                                 std::vector<int32_t>& ids, TokenPlaces& places) const {
  auto& cached = scratch.cached_parts;
  PieceScratch::Range range;
  const auto found = scratch.parts_cache.find(piece.text);
  const bool known = found != scratch.parts_cache.end();
  if (known) {
    range = found->second;
  } else {
    if (scratch.parts_cache.size() >= kCachedPieces) {
      scratch.parts_cache.clear();
      cached.clear();
    }
    range.begin = static_cast<uint32_t>(cached.size());
    range.unknown = append_parts(piece.text, scratch);
    range.end = static_cast<uint32_t>(cached.size());
  }
  for (uint32_t i = range.begin; i < range.end; ++i) {
    const PieceScratch::Part& part = cached[i];
    ids.push_back(part.id);
    places.add(part.has_bytes
                   ? TextPlace{piece.places[part.first].begin, piece.places[part.last].end}
                   : TextPlace{part.first, part.last},
               part.spaces);
  }
  scratch.unknown.add(range.unknown);
  if (known) return;
  if (piece.text.size() <= kCachedPieceBytes) {
    scratch.parts_cache.emplace(piece.text, range);
  } else {
    cached.resize(range.begin);
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
