#include "data/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr size_t kMaxSteps = 32;

}  // namespace

/// Converts the sequence of matches and gaps into pieces.
class PreTokenizer::SpanJoiner {
 public:
  struct Span {
    size_t begin = 0, end = 0;
    bool match = false;
  };

  SpanJoiner(SplitBehavior behavior, FunctionRef<void(size_t, size_t)> emit)
      : behavior_(behavior), emit_(emit) {}

  void add(Span span) {
    switch (behavior_) {
      case SplitBehavior::removed:
        if (!span.match) emit_(span.begin, span.end);
        return;
      case SplitBehavior::isolated:
        emit_(span.begin, span.end);
        return;
      case SplitBehavior::contiguous:
        join_if(held_ && held_->match == span.match, span);
        return;
      case SplitBehavior::merged_with_previous:
        join_if(held_ && span.match && !last_match_, span);
        return;
      case SplitBehavior::merged_with_next:
        join_if(held_ && last_match_ && !span.match, span);
        return;
    }
  }

  void finish() {
    if (held_) emit_(held_->begin, held_->end);
    held_.reset();
  }

 private:
  void join_if(bool join, Span span) {
    if (join) {
      held_->end = span.end;
    } else {
      finish();
      held_ = span;
    }
    last_match_ = span.match;
  }

  SplitBehavior behavior_;
  FunctionRef<void(size_t, size_t)> emit_;
  std::optional<Span> held_;
  bool last_match_ = false;
};

void PreTokenizer::add_step(Step step) {
  VIADUCT_CHECK(ConfigError, steps_.size() < kMaxSteps,
                "pre_tokenizer with more than {} steps is not supported", kMaxSteps);
  steps_.push_back(std::move(step));
}

namespace {

/// A piece of which only the text counts.
struct PlainView {
  std::string_view text;
  TextBegin begin = {};

  PlainView part(size_t from, size_t to) const {
    return {text.substr(from, to - from), from == 0 ? begin : TextBegin{}};
  }
};

bool is_at_start(const PlainView& piece) {
  return piece.begin.at_start;
}
bool is_at_start(const TrackedView& piece) {
  return piece.begin == 0;
}
bool is_in_middle(const PlainView& piece) {
  return piece.begin.in_middle;
}
bool is_in_middle(const TrackedView&) {
  return false;
}

/// A piece in the making out of parts of another.
class PlainMade {
 public:
  explicit PlainMade(const PlainView& from) : begin_(from.begin) {}
  void append(const PlainView& part) { text_ += part.text; }
  /// A text in the place of the byte `at` of `from`.
  void append(std::string_view text, const PlainView&, size_t) { text_ += text; }
  PlainView view() const { return {text_, begin_}; }

 private:
  std::string text_;
  TextBegin begin_;
};

class TrackedMade {
 public:
  explicit TrackedMade(const TrackedView& from) { made_.begin = from.begin; }
  void append(const TrackedView& part) { made_.append(part); }
  void append(std::string_view text, const TrackedView& from, size_t at) {
    made_.append(text, from.places[at]);
  }
  TrackedView view() const { return made_.view(); }

 private:
  TrackedText made_;
};

template <class View>
using Made = std::conditional_t<std::is_same_v<View, PlainView>, PlainMade, TrackedMade>;

}  // namespace

/// One call of `split`.
template <class View>
struct PreTokenizer::Run {
  const std::vector<Step>& steps;
  RegexScratch& scratch;
  FunctionRef<void(const View&)> piece;

  void apply(size_t step, const View& text) const {
    if (text.text.empty()) return;
    if (step == steps.size()) {
      piece(text);
      return;
    }
    std::visit([&](const auto& how) { take(how, step, text); }, steps[step]);
  }

  void take(const SplitStep& cut, size_t step, const View& text) const {
    const auto next = [&](size_t begin, size_t end) { apply(step + 1, text.part(begin, end)); };
    SpanJoiner joiner(cut.behavior, next);
    size_t done = 0;
    cut.pattern.for_each_match(text.text, scratch, [&](Regex::Match match) {
      if (match.begin > done) joiner.add({done, match.begin, cut.invert});
      joiner.add({match.begin, match.end, !cut.invert});  // also where it is empty
      done = match.end;
    });
    if (done < text.text.size()) joiner.add({done, text.text.size(), cut.invert});
    joiner.finish();
  }

  void take(const SpaceMarkStep& how, size_t step, const View& text) const {
    using Prefix = SpaceMarkStep::Prefix;
    Made<View> marked(text);
    const bool begins =
        how.prefix == Prefix::always || (how.prefix == Prefix::first && is_at_start(text));
    if (begins && !is_in_middle(text) && text.text.front() != ' ' &&
        !text.text.starts_with(how.mark))
      marked.append(how.mark, text, 0);
    const size_t end = text.text.size();
    for (size_t at = 0; at < end;) {
      const size_t space = std::min(text.text.find(' ', at), end);
      marked.append(text.part(at, space));
      if (space < end) marked.append(how.mark, text, space);
      at = space + 1;
    }
    if (how.cut) {
      take(*how.cut, step, marked.view());
    } else {
      apply(step + 1, marked.view());
    }
  }

  void take(const SpacePrefixStep&, size_t step, const View& text) const {
    if (text.text.front() == ' ' || is_in_middle(text)) return apply(step + 1, text);
    Made<View> begun(text);
    begun.append(" ", text, 0);
    begun.append(text);
    apply(step + 1, begun.view());
  }
};

void PreTokenizer::split(std::string_view text, TextBegin begin, RegexScratch& scratch,
                         FunctionRef<void(std::string_view)> piece) const {
  const auto take_text = [&](const PlainView& found) { piece(found.text); };
  Run<PlainView>{steps_, scratch, take_text}.apply(0, {text, begin});
}

void PreTokenizer::split(const TrackedView& text, RegexScratch& scratch,
                         FunctionRef<void(const TrackedView&)> piece) const {
  Run<TrackedView>{steps_, scratch, piece}.apply(0, text);
}

bool PreTokenizer::needs_places(bool moved) const {
  for (const Step& step : steps_) {
    const auto* mark = std::get_if<SpaceMarkStep>(&step);
    if (mark != nullptr && mark->prefix == SpaceMarkStep::Prefix::first && moved) return true;
    moved |= !std::holds_alternative<SplitStep>(step);
  }
  return false;
}

std::string_view gpt2_pattern() {
  return R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
}

std::string_view qwen2_pattern() {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
         R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

PreTokenizer pre_tokenizer_of(std::string_view pattern, bool add_prefix_space) {
  PreTokenizer made;
  if (add_prefix_space) made.add_prefix_space();
  made.add({Regex(pattern)});
  return made;
}

}  // namespace viaduct
