#include "data/tokenizer/pre_tokenizer.h"

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

/// One call of `split`.
struct PreTokenizer::Run {
  const std::vector<Step>& steps;
  RegexScratch& scratch;
  FunctionRef<void(std::string_view)> piece;

  void apply(size_t step, std::string_view text, bool at_start) const {
    if (text.empty()) return;
    if (step == steps.size()) {
      piece(text);
      return;
    }
    std::visit([&](const auto& how) { take(how, step, text, at_start); }, steps[step]);
  }

  void take(const SplitStep& cut, size_t step, std::string_view text, bool at_start) const {
    const auto next = [&](size_t begin, size_t end) {
      apply(step + 1, text.substr(begin, end - begin), at_start && begin == 0);
    };
    SpanJoiner joiner(cut.behavior, next);
    size_t done = 0;
    cut.pattern.for_each_match(text, scratch, [&](Regex::Match match) {
      if (match.begin > done) joiner.add({done, match.begin, cut.invert});
      joiner.add({match.begin, match.end, !cut.invert});  // also where it is empty
      done = match.end;
    });
    if (done < text.size()) joiner.add({done, text.size(), cut.invert});
    joiner.finish();
  }

  void take(const SpaceMarkStep& how, size_t step, std::string_view text, bool at_start) const {
    using Prefix = SpaceMarkStep::Prefix;
    std::string marked;
    marked.reserve(text.size() + how.mark.size());
    const bool begins = how.prefix == Prefix::always || (how.prefix == Prefix::first && at_start);
    if (begins && text.front() != ' ' && !text.starts_with(how.mark)) marked += how.mark;
    for (const char c : text) {
      if (c == ' ') {
        marked += how.mark;
      } else {
        marked += c;
      }
    }
    if (how.cut) {
      take(*how.cut, step, marked, at_start);
    } else {
      apply(step + 1, marked, at_start);
    }
  }

  void take(const SpacePrefixStep&, size_t step, std::string_view text, bool at_start) const {
    if (text.front() == ' ') {
      apply(step + 1, text, at_start);
    } else {
      apply(step + 1, " " + std::string(text), at_start);
    }
  }
};

void PreTokenizer::split(std::string_view text, bool at_start, RegexScratch& scratch,
                         FunctionRef<void(std::string_view)> piece) const {
  Run{steps_, scratch, piece}.apply(0, text, at_start);
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
