#pragma once
// Cutting text into the pieces that a model works on (Hugging Face's "pre_tokenizer").

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/tracked_text.h"

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

/// Spaces become a mark, a piece that does not begin with it gets one (`prefix`; `first`: only a
/// piece that comes from the very begin of the original text), and each mark begins a piece if
/// `cut` is there.
struct SpaceMarkStep {
  enum class Prefix { never, first, always };
  std::string mark;
  Prefix prefix = Prefix::always;
  std::optional<SplitStep> cut;
};

/// Each piece that does not begin with a space gets one.
struct SpacePrefixStep {};

/// Where a text to cut begins in the whole text that is encoded.
struct TextBegin {
  bool at_start = false;   // with the whole text
  bool in_middle = false;  // in the middle: its first piece gets no mark or space
};

/// A sequence of steps, each applied to the pieces of the previous one.
class PreTokenizer {
 public:
  PreTokenizer() = default;

  /// At most 32 steps (ConfigError beyond).
  void add(SplitStep step) { add_step(std::move(step)); }
  void add(SpaceMarkStep step) { add_step(std::move(step)); }
  void add_prefix_space() { add_step(SpacePrefixStep{}); }

  /// Calls `piece` for each non-empty piece of `text` in order. `text` is well-formed UTF-8.
  void split(std::string_view text, TextBegin begin, RegexScratch& scratch,
             FunctionRef<void(std::string_view)> piece) const;
  /// The same with the places of the pieces.
  void split(const TrackedView& text, RegexScratch& scratch,
             FunctionRef<void(const TrackedView&)> piece) const;

  /// Whether the pieces depend on where the text comes from beyond `at_start`: a step asks for the
  /// begin of the original after another that moves it, or after normalizers did (`moved`).
  bool needs_places(bool moved) const;

 private:
  using Step = std::variant<SplitStep, SpaceMarkStep, SpacePrefixStep>;
  template <class View>
  struct Run;
  class SpanJoiner;

  void add_step(Step step);

  std::vector<Step> steps_;
};

/// GPT-2's pattern: contractions, letters, numbers, other signs, white space (one space may lead).
std::string_view gpt2_pattern();
/// The pattern of Qwen2 and later: as GPT-2's with any case, single digits, and separate line ends.
std::string_view qwen2_pattern();

/// Cuts by one pattern, every match a piece.
PreTokenizer pre_tokenizer_of(std::string_view pattern, bool add_prefix_space = false);

}  // namespace viaduct
