#pragma once
// What happens to a text before it is cut (Hugging Face's "normalizer").

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/tokenizer/charsmap.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/tracked_text.h"
#include "data/tokenizer/unicode_forms.h"

namespace viaduct {

/// Steps of a normalizer.
struct Replacement {
  Regex pattern;
  std::string content;
};
struct Prefix {
  std::string text;  // before every text that is not empty
};
struct StripSpace {
  bool left = true, right = true;
};
enum class CharacterStep {
  lowercase,
  strip_accents,  // leaves marks out
  nmt,            // SentencePiece's cleaning of control characters and spaces
  byte_letters,   // spells bytes in the byte alphabet
};
using NormalizerStep =
    std::variant<NormalForm, Replacement, Prefix, StripSpace, CharacterStep, Charsmap>;

/// SentencePiece's rule "nmt": controls are left out, spaces of several kinds become ' '.
void clean_for_translation(char32_t c, std::string& out);
/// What a StripSpace leaves of `text`.
std::string_view stripped(const StripSpace& step, std::string_view text);

/// Steps applied one after the other; none by default.
class Normalizer {
 public:
  void add(NormalizerStep step);

  bool empty() const { return steps_.empty(); }
  /// The normalized text, or nothing where it equals `text` (which is well-formed UTF-8). Linear in
  /// the text, but for patterns that go back without bound.
  /// `in_middle`: the text goes on another, and gets no prefix.
  std::optional<std::string> normalize(std::string_view text, RegexScratch& scratch,
                                       bool in_middle = false) const;
  /// The same, and where the bytes come from (normalizer_places.cpp).
  void normalize(TrackedText& text, RegexScratch& scratch, bool in_middle = false) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace viaduct
