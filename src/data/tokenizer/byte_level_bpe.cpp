#include "data/tokenizer/byte_level_bpe.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

// Ids may have gaps, but a file must not make us allocate for ids far beyond its tokens.
constexpr int64_t kMaxGap = 1 << 20;
constexpr size_t kCachedPieces = 1 << 16, kCachedPieceBytes = 64;

void add(UnknownBytes& to, const UnknownBytes& more) {
  if (to.count == 0) to.first = more.first;
  to.count += more.count;
}

struct HashBytes {
  using is_transparent = void;
  size_t operator()(std::string_view bytes) const { return hash64(bytes); }
};

}  // namespace

/// Pieces repeat, so their ids are cached; the cache is cleared when it is full.
struct ByteLevelBpe::PieceScratch : TokenModel::Scratch {
  struct Range {
    uint32_t begin = 0, end = 0;
    UnknownBytes unknown;
  };
  RegexScratch regex;
  MergeScratch merge;
  std::vector<int32_t> piece;
  std::unordered_map<std::string, Range, HashBytes, std::equal_to<>> cache;
  std::vector<int32_t> cached_ids;
};

ByteLevelBpe::ByteLevelBpe(ByteLevelBpeSpec spec, std::string_view source)
    : merges_(spec.merges.size()),
      normalizer_(std::move(spec.normalizer)),
      pre_tokenizer_(std::move(spec.pre_tokenizer)),
      ignore_merges_(spec.ignore_merges),
      fuse_unknown_(spec.fuse_unknown) {
  const auto count = static_cast<int64_t>(spec.vocabulary.size());
  VIADUCT_CHECK(IoError, count > 0, "{}: the vocabulary is empty", source);
  const int64_t limit = std::min<int64_t>(8 * count + kMaxGap, int64_t{1} << 30);
  int64_t largest = 0;
  for (const auto& [token, id] : spec.vocabulary) {
    VIADUCT_CHECK(IoError, id >= 0 && id < limit,
                  "{}: token \"{}\" has id {}, expected 0 to {} for {} tokens", source, token, id,
                  limit - 1, count);
    VIADUCT_CHECK(IoError, is_valid_utf8(token), "{}: token {} is not UTF-8", source, id);
    largest = std::max<int64_t>(largest, id);
  }
  spelled_.assign(largest + 1, nullptr);
  id_of_.reserve(spec.vocabulary.size());
  for (auto& [token, id] : spec.vocabulary) {
    const auto [entry, fresh] = id_of_.try_emplace(std::move(token), id);
    VIADUCT_CHECK(IoError, fresh && spelled_[id] == nullptr,
                  "{}: token \"{}\" or id {} is given twice", source, entry->first, id);
    spelled_[id] = &entry->first;
  }
  for (int byte = 0; byte < 256; ++byte) {
    std::string letter;
    append_utf8(letter, byte_character(static_cast<uint8_t>(byte)));
    id_of_byte_[byte] = find(letter).value_or(-1);
  }
  const bool lacks_bytes = std::count(id_of_byte_.begin(), id_of_byte_.end(), -1) > 0;
  if (lacks_bytes && spec.unknown_token) {
    const auto id = find(*spec.unknown_token);
    VIADUCT_CHECK(IoError, id.has_value(),
                  "{}: unk_token \"{}\" is not in the vocabulary, which lacks bytes", source,
                  *spec.unknown_token);
    unknown_id_ = *id;
  }
  uint32_t rank = 0;
  for (const auto& [left, right] : spec.merges) {
    const auto known = [&](const std::string& token) {
      const auto id = find(token);
      VIADUCT_CHECK(IoError, id.has_value(), "{}: merge {} (\"{}\" with \"{}\"): no token \"{}\"",
                    source, rank, left, right, token);
      return *id;
    };
    const int32_t left_id = known(left), right_id = known(right);
    merges_.set(left_id, right_id, {rank, known(left + right)});
    ++rank;
  }
}

std::unique_ptr<TokenModel::Scratch> ByteLevelBpe::make_scratch() const {
  return std::make_unique<PieceScratch>();
}

std::optional<std::string> ByteLevelBpe::normalize(std::string_view text) const {
  return normalizer_.normalize(text);
}

void ByteLevelBpe::encode(std::string_view normalized, Scratch& scratch,
                          std::vector<int32_t>& ids) const {
  pre_tokenizer_.split(normalized, static_cast<PieceScratch&>(scratch).regex,
                       [&](std::string_view piece) { encode_piece(piece, scratch, ids); });
}

void ByteLevelBpe::encode_piece(std::string_view bytes, Scratch& any_scratch,
                                std::vector<int32_t>& ids) const {
  auto& scratch = static_cast<PieceScratch&>(any_scratch);
  const bool cacheable = bytes.size() <= kCachedPieceBytes;
  if (cacheable) {
    const auto found = scratch.cache.find(bytes);
    if (found != scratch.cache.end()) {
      ids.insert(ids.end(), scratch.cached_ids.begin() + found->second.begin,
                 scratch.cached_ids.begin() + found->second.end);
      add(scratch.unknown, found->second.unknown);
      return;
    }
  }
  scratch.piece.clear();
  UnknownBytes unknown;
  const auto whole = ignore_merges_ ? find(spell_bytes(bytes)) : std::nullopt;
  if (whole) {
    scratch.piece.push_back(*whole);
  } else {
    VIADUCT_CHECK(Error, bytes.size() < (size_t{1} << 31), "a piece of {} bytes is too long",
                  bytes.size());
    bool after_unknown = false;
    for (const char c : bytes) {
      const auto byte = static_cast<uint8_t>(c);
      const int32_t id = id_of_byte_[byte];
      if (id >= 0) {
        scratch.piece.push_back(id);
      } else {
        add(unknown, {1, byte});
        if (unknown_id_ >= 0 && !(fuse_unknown_ && after_unknown))
          scratch.piece.push_back(unknown_id_);
      }
      after_unknown = id < 0;
    }
    merge_pairs(scratch.piece, merges_, scratch.merge);
  }
  ids.insert(ids.end(), scratch.piece.begin(), scratch.piece.end());
  add(scratch.unknown, unknown);
  if (!cacheable) return;
  if (scratch.cache.size() >= kCachedPieces) {
    scratch.cache.clear();
    scratch.cached_ids.clear();
  }
  const auto begin = static_cast<uint32_t>(scratch.cached_ids.size());
  scratch.cached_ids.insert(scratch.cached_ids.end(), scratch.piece.begin(), scratch.piece.end());
  scratch.cache.emplace(
      bytes, PieceScratch::Range{begin, static_cast<uint32_t>(scratch.cached_ids.size()), unknown});
}

bool ByteLevelBpe::encode_bytes(std::string_view bytes, Scratch& scratch,
                                std::vector<int32_t>& ids) const {
  encode_piece(bytes, scratch, ids);
  return true;
}

bool ByteLevelBpe::decode(int32_t id, DecodeState&, std::string& bytes) const {
  if (id < 0 || id >= size() || spelled_[id] == nullptr) return false;
  // A token not spelled in the alphabet (a special token in the vocabulary) is its own text.
  bytes += unspell_bytes(*spelled_[id]).value_or(*spelled_[id]);
  return true;
}

std::optional<int32_t> ByteLevelBpe::find(std::string_view token) const {
  const auto found = id_of_.find(std::string(token));
  if (found == id_of_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> ByteLevelBpe::token(int32_t id) const {
  if (id < 0 || id >= size() || spelled_[id] == nullptr) return std::nullopt;
  return *spelled_[id];
}

}  // namespace viaduct
