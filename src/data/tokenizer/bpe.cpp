#include "data/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/token_id.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

// Ids may have gaps, but a file must not make us allocate for ids far beyond its tokens.
constexpr int64_t kMaxGap = 1 << 20;

}  // namespace

struct Bpe::MergeBuffers : PieceModel::Buffers {
  MergeScratch merge;
  std::vector<int32_t> piece;
};

Bpe::Bpe(BpeSpec spec, std::string_view source)
    : byte_level_(spec.byte_level),
      merges_(spec.merges.size()),
      ignore_merges_(spec.ignore_merges),
      byte_fallback_(spec.byte_fallback),
      fuse_unknown_(spec.fuse_unknown) {
  const auto count = static_cast<int64_t>(spec.vocabulary.size());
  VIADUCT_CHECK(IoError, count > 0, "{}: the vocabulary is empty", source);
  const int64_t limit = std::min<int64_t>(8 * count + kMaxGap, int64_t{1} << 30);
  int64_t largest = 0;
  for (const auto& [token, id] : spec.vocabulary) {
    check_token_length(token, id, source);
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
    if (!entry->first.empty()) {
      const CodePoint first = first_code_point(entry->first);
      if (first.bytes == entry->first.size()) id_of_character_[first.value] = id;
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    std::string letter;
    append_utf8(letter, byte_character(static_cast<uint8_t>(byte)));
    id_of_byte_[byte] = find(letter).value_or(-1);
    id_of_byte_token_[byte] = find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  const auto lacks = [](const std::array<int32_t, 256>& ids) {
    return std::count(ids.begin(), ids.end(), -1) > 0;
  };
  const bool lacks_text =
      byte_level_ ? lacks(id_of_byte_) : !byte_fallback_ || lacks(id_of_byte_token_);
  if (spec.unknown_token) {
    const auto id = find(*spec.unknown_token);
    VIADUCT_CHECK(IoError, id.has_value() || !lacks_text,
                  "{}: unk_token \"{}\" is not in the vocabulary, which lacks {}", source,
                  *spec.unknown_token, byte_level_ ? "bytes" : "characters");
    if (lacks_text) unknown_id_ = *id;
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

std::unique_ptr<PieceModel::Buffers> Bpe::make_buffers() const {
  return std::make_unique<MergeBuffers>();
}

UnknownBytes Bpe::spell_known_bytes(std::string_view piece, std::vector<int32_t>& ids) const {
  UnknownBytes unknown;
  bool after_unknown = false;
  for (const char c : piece) {
    const auto byte = static_cast<uint8_t>(c);
    const int32_t id = id_of_byte_[byte];
    if (id >= 0) {
      ids.push_back(id);
    } else {
      unknown.add({1, byte});
      if (unknown_id_ >= 0 && !(fuse_unknown_ && after_unknown)) ids.push_back(unknown_id_);
    }
    after_unknown = id < 0;
  }
  return unknown;
}

UnknownBytes Bpe::spell_characters(std::string_view piece, std::vector<int32_t>& ids,
                                   std::vector<size_t>* bytes_of_ids) const {
  UnknownBytes unknown;
  const auto put = [&](int32_t id, size_t bytes) {
    ids.push_back(id);
    if (bytes_of_ids != nullptr) bytes_of_ids->push_back(bytes);
  };
  // As in Hugging Face's tokenizers, an unknown token waits for the next known character; tokens of
  // bytes pass it by.
  size_t waiting = 0;  // its bytes
  while (!piece.empty()) {
    const CodePoint next = first_code_point(piece);
    const std::string_view bytes = piece.substr(0, next.bytes);
    piece.remove_prefix(next.bytes);
    if (const auto found = id_of_character_.find(next.value); found != id_of_character_.end()) {
      if (waiting > 0) put(unknown_id_, waiting);
      waiting = 0;
      put(found->second, next.bytes);
      continue;
    }
    const auto has_token = [&](char c) { return id_of_byte_token_[static_cast<uint8_t>(c)] >= 0; };
    if (byte_fallback_ && std::all_of(bytes.begin(), bytes.end(), has_token)) {
      for (const char c : bytes) put(id_of_byte_token_[static_cast<uint8_t>(c)], 1);
      continue;
    }
    const std::string raw = byte_level_ ? *unspell_bytes(bytes) : std::string(bytes);
    unknown.add({static_cast<int64_t>(raw.size()), static_cast<uint8_t>(raw.front())});
    if (unknown_id_ < 0) continue;
    if (waiting > 0 && !fuse_unknown_) put(unknown_id_, std::exchange(waiting, 0));
    waiting += next.bytes;
  }
  if (waiting > 0) put(unknown_id_, waiting);
  return unknown;
}

UnknownBytes Bpe::encode(std::string_view piece, Buffers& any_buffers,
                         std::vector<int32_t>& ids) const {
  auto& buffers = static_cast<MergeBuffers&>(any_buffers);
  if (ignore_merges_) {
    if (const auto whole = find(byte_level_ ? spell_bytes(piece) : std::string(piece))) {
      ids.push_back(*whole);
      return {};
    }
  }
  VIADUCT_CHECK(Error, piece.size() < (size_t{1} << 31), "a piece of {} bytes is too long",
                piece.size());
  buffers.piece.clear();
  const UnknownBytes unknown =
      byte_level_ && !byte_fallback_
          ? spell_known_bytes(piece, buffers.piece)
          : spell_characters(byte_level_ ? spell_bytes(piece) : piece, buffers.piece);
  merge_pairs(buffers.piece, merges_, buffers.merge);
  ids.insert(ids.end(), buffers.piece.begin(), buffers.piece.end());
  return unknown;
}

UnknownBytes Bpe::encode_parts(std::string_view piece, Buffers& any_buffers,
                               std::vector<int32_t>& ids, std::vector<PiecePart>& parts) const {
  auto& buffers = static_cast<MergeBuffers&>(any_buffers);
  if (ignore_merges_) {
    if (const auto whole = find(piece)) {
      ids.push_back(*whole);
      parts.push_back({0, piece.size()});
      return {};
    }
  }
  std::vector<int32_t> characters;
  std::vector<size_t> bytes;
  const UnknownBytes unknown = spell_characters(piece, characters, &bytes);
  buffers.piece = characters;
  merge_pairs(buffers.piece, merges_, buffers.merge);
  // A merged token is spelled as the tokens that it is made of.
  size_t next = 0, end = 0;
  for (const int32_t id : buffers.piece) {
    const size_t begin = end;
    for (size_t left = spelled_[id]->size(); left > 0 && next < characters.size(); ++next) {
      end += bytes[next];
      left -= std::min(left, spelled_[characters[next]]->size());
    }
    ids.push_back(id);
    parts.push_back({begin, end});
  }
  return unknown;
}

bool Bpe::encode_bytes(std::string_view bytes, Buffers& buffers, std::vector<int32_t>& ids) const {
  if (byte_level_) {
    encode(bytes, buffers, ids);
    return true;
  }
  const auto has_token = [&](char c) { return id_of_byte_token_[static_cast<uint8_t>(c)] >= 0; };
  if (!byte_fallback_ || !std::all_of(bytes.begin(), bytes.end(), has_token)) return false;
  for (const char c : bytes) ids.push_back(id_of_byte_token_[static_cast<uint8_t>(c)]);
  return true;
}

std::string Bpe::bytes_of(std::string_view spelling) const {
  // A token not spelled in the alphabet (a special token in the vocabulary) is its own text.
  if (byte_level_) return unspell_bytes(spelling).value_or(std::string(spelling));
  return std::string(spelling);
}

std::optional<int32_t> Bpe::find(std::string_view token) const {
  const auto found = id_of_.find(std::string(token));
  if (found == id_of_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> Bpe::token(int32_t id) const {
  if (id < 0 || id >= size() || spelled_[id] == nullptr) return std::nullopt;
  return *spelled_[id];
}

}  // namespace viaduct
