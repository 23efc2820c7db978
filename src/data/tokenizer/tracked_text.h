#pragma once
// A text that normalizers change, with the place in the original that each of its bytes comes from,
// as Hugging Face's tokenizers library tracks it.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// Bytes of the original text.
struct TextPlace {
  size_t begin = 0, end = 0;

  bool operator==(const TextPlace&) const = default;
};

/// A part of a TrackedText.
struct TrackedView {
  std::string_view text;
  const TextPlace* places = nullptr;  // one for each byte of `text`
  size_t begin = 0;                   // where the part begins in the original

  /// Bytes `from` up to `to`. A part that is not empty begins where its first byte comes from.
  TrackedView part(size_t from, size_t to) const {
    return {text.substr(from, to - from), places + from, from < to ? places[from].begin : begin};
  }
};

/// One character of a changed text: it replaces the next character of the text before and the
/// `-change` that follow it, or is a new one behind the last that was taken (`change` of 1).
struct CharacterChange {
  char32_t value = 0;
  int change = 0;
};

struct TrackedText {
  std::string text;
  std::vector<TextPlace> places;  // one for each byte of `text`
  size_t begin = 0;               // where the text begins in the original

  TrackedText() = default;
  /// The unchanged part of the original that begins at `begin`. Well-formed UTF-8.
  TrackedText(std::string_view original, size_t begin);

  TrackedView view() const { return {text, places.data(), begin}; }
  void append(std::string_view more, TextPlace place);
  void append(const TrackedView& more);
  /// The text becomes that of `changes`.
  void change(std::span<const CharacterChange> changes);
};

}  // namespace viaduct
