#pragma once
// Cutting text into the pieces that byte-pair merging works on (Hugging Face's "pre_tokenizer").

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "data/tokenizer/regex.h"

namespace viaduct {

/// Treatment of the parts of the text that a pattern matches.
enum class SplitBehavior { removed, isolated, contiguous, merged_with_previous, merged_with_next };

/// One cut: matches and the text between them become pieces according to `behavior`. `invert` swaps
/// the two.
struct SplitStep {
  Regex pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
};

/// A sequence of cuts, each applied to the pieces of the previous one.
class PreTokenizer {
 public:
  PreTokenizer() = default;

  /// At most 32 steps (ConfigError beyond).
  void add(SplitStep step);
  /// From here on (before the next step, if one follows) each piece that does not begin with a
  /// space gets one.
  void add_prefix_space() { prefix_step_ = steps_.size(); }

  /// Calls `piece` for each non-empty piece of `text` in order. `text` is well-formed UTF-8.
  void split(std::string_view text, RegexScratch& scratch,
             FunctionRef<void(std::string_view)> piece) const;

 private:
  void apply(size_t step, std::string_view text, RegexScratch& scratch,
             FunctionRef<void(std::string_view)> piece) const;

  std::vector<SplitStep> steps_;
  std::optional<size_t> prefix_step_;
};

/// GPT-2's pattern: contractions, letters, numbers, other signs, white space (one space may lead).
std::string_view gpt2_pattern();
/// The pattern of Qwen2 and later: as GPT-2's with any case, single digits, and separate line ends.
std::string_view qwen2_pattern();

/// Cuts by one pattern, every match a piece.
PreTokenizer pre_tokenizer_of(std::string_view pattern, bool add_prefix_space = false);

}  // namespace viaduct
