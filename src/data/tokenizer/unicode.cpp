#include "data/tokenizer/unicode.h"

#include <cstdint>

#include "data/tokenizer/unicode_sets.h"

namespace viaduct {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// One decoding step over bytes that may be ill-formed.
struct Step {
  size_t bytes = 1;         // of the character, or of the maximal ill-formed part
  bool valid = false;       // a whole character
  bool unfinished = false;  // ill-formed only because the text ends here
};

Step scan(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return {1, true, false};
  size_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0) return {1, false, false};
  // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
  uint8_t low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size()) return {i, false, true};
    if (byte(at + i) < low || byte(at + i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

/// The first byte at or after `at` that is not ASCII.
size_t skip_ascii(std::string_view text, size_t at) {
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const Step step = scan(text, at);
    if (!step.valid) return false;
    at += step.bytes;
  }
  return true;
}

IllFormed ill_formed_utf8(std::string_view text) {
  IllFormed found;
  for (size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const Step step = scan(text, at);
    if (!step.valid && found.count++ == 0) found.first = at;
    at += step.bytes;
  }
  return found;
}

Stretch first_stretch(std::string_view text) {
  const bool well_formed = scan(text, 0).valid;
  size_t end = 0;
  while (end < text.size()) {
    const Step step = scan(text, end);
    if (step.valid != well_formed) break;
    end += step.bytes;
  }
  return {text.substr(0, end), well_formed};
}

std::string lossy_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Step step = scan(text, at);
    out.append(step.valid ? text.substr(at, step.bytes) : kReplacement);
    at += step.bytes;
  }
  return out;
}

size_t unfinished_utf8_bytes(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t at = text.size() - back;
    if ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) continue;  // not a first byte
    const Step step = scan(text, at);
    return step.unfinished && step.bytes == back ? back : 0;
  }
  return 0;
}

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

CodePoint last_code_point(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return first_code_point(text.substr(at));
}

void append_utf8(std::string& text, char32_t value) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | value >> 6);
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3F));
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

bool is_white_space(char32_t value) {
  return (value >= 0x09 && value <= 0x0D) || value == 0x20 || value == 0x85 || value == 0xA0 ||
         value == 0x1680 || (value >= 0x2000 && value <= 0x200A) || value == 0x2028 ||
         value == 0x2029 || value == 0x202F || value == 0x205F || value == 0x3000;
}

bool only_white_space(std::string_view text) {
  while (!text.empty()) {
    const CodePoint first = first_code_point(text);
    if (!is_white_space(first.value)) return false;
    text.remove_prefix(first.bytes);
  }
  return true;
}

bool is_word_character(char32_t value) {
  static const CodePointSet kWords = *property_set("Rust_Word");
  return kWords.contains(value);
}

bool is_accent(char32_t value) {
  static const CodePointSet kMarks = *property_set("Rust_Mark");
  return kMarks.contains(value);
}

bool joins_cluster(char32_t before, char32_t value) {
  static const CodePointSet kExtend = *property_set("Grapheme_Extends");
  static const CodePointSet kPrepend = *property_set("Grapheme_Prepends");
  static const CodePointSet kControl =
      (*property_set("Cc") | *property_set("Cf") | *property_set("Zl") | *property_set("Zp")) &
      ~(kExtend | kPrepend);
  if (before == '\r' && value == '\n') return true;
  if (before < 0x80 && value < 0x80) return false;
  if (kControl.contains(before) || kControl.contains(value)) return false;
  return kExtend.contains(value) || kPrepend.contains(before);
}

}  // namespace viaduct
