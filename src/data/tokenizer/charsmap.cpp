#include "data/tokenizer/charsmap.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

// Longer clusters are replaced character by character.
constexpr size_t kLongCluster = 6;

std::string decode_base64(std::string_view text, std::string_view source) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int8_t, 256> value{};
  value.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i)
    value[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  std::string bytes;
  uint32_t held = 0;
  int bits = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const int digit = value[static_cast<uint8_t>(c)];
    VIADUCT_CHECK(IoError, digit >= 0, "{}: precompiled_charsmap is not base64", source);
    held = held << 6 | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<char>(held >> bits & 0xFF));
  }
  return bytes;
}

uint32_t word_at(std::string_view bytes, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return word;
}

// Units of a double array (Darts-clone): a label or a value, and where the children are.
bool has_leaf(uint32_t unit) {
  return unit >> 8 & 1;
}
uint32_t label_of(uint32_t unit) {
  return unit & (1u << 31 | 0xFF);
}
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit & (1u << 9)) >> 6);
}
uint32_t value_of(uint32_t unit) {
  return unit & ((1u << 31) - 1);
}

/// The first grapheme cluster of a text, as far as it matters for clusters shorter than
/// kLongCluster.
size_t cluster_bytes(std::string_view text) {
  CodePoint last = first_code_point(text);
  size_t bytes = last.bytes;
  while (bytes < text.size()) {
    const CodePoint next = first_code_point(text.substr(bytes));
    if (!joins_cluster(last.value, next.value)) break;
    bytes += next.bytes;
    last = next;
  }
  return bytes;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Charsmap::Charsmap(std::string_view base64, std::string_view source)
    : Charsmap(Bytes{decode_base64(base64, source)}, source) {}

Charsmap::Charsmap(const Bytes& map, std::string_view source) {
  const std::string& bytes = map.bytes;
  if (bytes.empty()) return;
  VIADUCT_CHECK(IoError, bytes.size() >= 4 && word_at(bytes, 0) <= bytes.size() - 4,
                "{}: precompiled_charsmap of {} bytes is cut off", source, bytes.size());
  const size_t trie_bytes = word_at(bytes, 0);
  for (size_t at = 4; at + 4 <= 4 + trie_bytes; at += 4) units_.push_back(word_at(bytes, at));
  texts_ = bytes.substr(4 + trie_bytes);
  VIADUCT_CHECK(IoError, is_valid_utf8(texts_),
                "{}: precompiled_charsmap has texts that are not UTF-8", source);
}

std::optional<std::string_view> Charsmap::replacement(std::string_view text) const {
  if (units_.empty()) return std::nullopt;
  size_t place = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0) return std::nullopt;
    place ^= byte;
    if (place >= units_.size() || label_of(units_[place]) != byte) return std::nullopt;
    const uint32_t unit = units_[place];
    place ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (place >= units_.size()) return std::nullopt;
    const size_t begin = value_of(units_[place]);
    if (begin > texts_.size()) return std::nullopt;
    // A place inside a character gives no text.
    if (begin < texts_.size() && (static_cast<uint8_t>(texts_[begin]) & 0xC0) == 0x80)
      return std::nullopt;
    const size_t end = texts_.find('\0', begin);
    return std::string_view(texts_).substr(begin, end == std::string::npos ? end : end - begin);
  }
  return std::nullopt;
}

template <class Put>
void Charsmap::replace(std::string_view text, const Put& put) const {
  while (!text.empty()) {
    size_t bytes = cluster_bytes(text);
    const CodePoint first = first_code_point(text);
    if (bytes < kLongCluster && bytes > first.bytes) {
      const std::string_view cluster = text.substr(0, bytes);
      if (const auto whole = replacement(cluster)) {
        put(cluster, whole);
        text.remove_prefix(bytes);
        continue;
      }
    }
    // The characters of the cluster follow one by one.
    while (bytes > 0) {
      const size_t one = first_code_point(text).bytes;
      const std::string_view character = text.substr(0, one);
      put(character, replacement(character));
      text.remove_prefix(one);
      bytes -= std::min(bytes, one);
    }
  }
}

std::optional<std::string> Charsmap::normalize(std::string_view text) const {
  std::string out;
  bool changed = false;
  replace(text, [&](std::string_view part, std::optional<std::string_view> found) {
    out += found ? *found : part;
    changed |= found.has_value();
  });
  if (!changed) return std::nullopt;
  return out;
}

std::optional<std::vector<CharacterChange>> Charsmap::changes(std::string_view text) const {
  std::vector<CharacterChange> out;
  bool changed = false;
  replace(text, [&](std::string_view part, std::optional<std::string_view> found) {
    changed |= found.has_value();
    const auto before = count_characters(part);
    std::string_view put = found ? *found : part;
    const auto after = count_characters(put);
    for (; !put.empty(); put.remove_prefix(first_code_point(put).bytes))
      out.push_back({first_code_point(put).value, 0});
    // As in the library: the last ones are new, or the last one takes what is left out.
    for (auto i = before; i < after; ++i) out[out.size() - 1 - (i - before)].change = 1;
    if (after < before && !out.empty()) out.back().change -= static_cast<int>(before - after);
  });
  if (!changed) return std::nullopt;
  return out;
}

}  // namespace viaduct
