#include "data/tokenizer/pre_tokenizer.h"

#include "base/error.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

constexpr size_t kMaxSteps = 32;

struct Span {
  size_t begin = 0, end = 0;
  bool match = false;
};

/// Converts the sequence of matches and gaps into pieces.
class SpanJoiner {
 public:
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

}  // namespace

void PreTokenizer::add(SplitStep step) {
  VIADUCT_CHECK(ConfigError, steps_.size() < kMaxSteps,
                "pre_tokenizer with more than {} steps is not supported", kMaxSteps);
  steps_.push_back(std::move(step));
}

void PreTokenizer::split(std::string_view text, RegexScratch& scratch,
                         FunctionRef<void(std::string_view)> piece) const {
  apply(0, text, scratch, piece);
}

void PreTokenizer::apply(size_t step, std::string_view text, RegexScratch& scratch,
                         FunctionRef<void(std::string_view)> piece) const {
  if (text.empty()) return;
  std::string prefixed;
  if (prefix_step_ == step && text.front() != ' ') {
    prefixed.reserve(text.size() + 1);
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  if (step == steps_.size()) {
    piece(text);
    return;
  }
  const SplitStep& cut = steps_[step];
  const auto next = [&](size_t begin, size_t end) {
    apply(step + 1, text.substr(begin, end - begin), scratch, piece);
  };
  SpanJoiner joiner(cut.behavior, next);
  size_t done = 0, from = 0;
  while (from <= text.size()) {
    const auto match = cut.pattern.find(text, from, scratch);
    if (!match) break;
    if (match->begin > done) joiner.add({done, match->begin, cut.invert});
    if (match->end > match->begin) joiner.add({match->begin, match->end, !cut.invert});
    done = match->end;
    from = match->end;
    if (match->end == match->begin) {  // an empty match: continue after the next character
      if (from == text.size()) break;
      from += first_code_point(text.substr(from)).bytes;
    }
  }
  if (done < text.size()) joiner.add({done, text.size(), cut.invert});
  joiner.finish();
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
