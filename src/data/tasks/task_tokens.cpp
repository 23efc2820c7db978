#include "data/tasks/task_tokens.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "config/problems.h"
#include "data/tokenizer/text_ids.h"
#include "template/unicode_text.h"

namespace viaduct {
namespace {

using Ids = std::vector<int32_t>;

/// Tokenizes texts from their beginning on.
class TaskTokenizer {
 public:
  explicit TaskTokenizer(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), cache_(tokenizer.make_cache()) {
    const SpecialIds& special = tokenizer.special_ids();
    first_ = special.bos ? special.bos : special.eos;
    if (first_) first_text_ = tokenizer.token(*first_).value_or("");
    // What the template puts before a text does not depend on it.
    const std::string any = "a";
    added_ = text_ids(tokenizer, any);
    added_.resize(added_.size() - std::min(added_.size(), tokenizer.encode(any).size()));
  }

  /// The begin token, else the end token.
  const std::optional<int32_t>& first() const { return first_; }

  Ids plain(const std::string& text) {
    Ids ids;
    tokenizer_.encode(text, {}, cache_, ids);
    return ids;
  }
  /// With the tokens that the template adds before it.
  Ids from_the_beginning(const std::string& text) {
    const bool has_own = !first_text_.empty() && text.starts_with(first_text_);
    Ids ids = has_own ? Ids() : added_;
    tokenizer_.encode(text, {}, cache_, ids);
    return ids;
  }

 private:
  const Tokenizer& tokenizer_;
  EncodeCache cache_;
  std::optional<int32_t> first_;
  std::string first_text_;
  Ids added_;
};

/// The tokens of `scored` after `context`; nothing if an empty context has no token to stand for
/// it. None are scored if the text leaves none after the context.
std::optional<ScoredTokens> tokens_of(TaskTokenizer& tokenizer, std::string context,
                                      std::string scored) {
  const size_t kept = jinja::strip(context, false, true).size();
  scored.insert(0, context, kept);
  context.resize(kept);
  ScoredTokens tokens;
  if (!context.empty()) tokens.ids = tokenizer.from_the_beginning(context);
  if (!tokens.ids.empty()) {
    // The context keeps its own tokens, even where the last one would join with what follows.
    const Ids whole = tokenizer.from_the_beginning(context + scored);
    const size_t read = std::min(tokens.ids.size(), whole.size());
    tokens.ids.insert(tokens.ids.end(), whole.begin() + static_cast<int64_t>(read), whole.end());
    tokens.scored = static_cast<int64_t>(whole.size() - read);
  } else {
    const std::optional<int32_t>& first = tokenizer.first();
    if (!first) return std::nullopt;
    tokens.ids = tokenizer.plain(scored);
    if (tokens.ids.empty() || tokens.ids.front() != *first)
      tokens.ids.insert(tokens.ids.begin(), *first);
    tokens.scored = static_cast<int64_t>(tokens.ids.size()) - 1;
  }
  return tokens;
}

}  // namespace

std::vector<ScoredTokens> task_tokens(const TaskFile& file, const Tokenizer& tokenizer,
                                      const TaskTextOptions& options) {
  TaskTokenizer of_tasks(tokenizer);
  std::vector<ScoredTokens> texts;
  Problems problems;
  for (const TaskLine& line : file.lines) {
    for (size_t i = 0; i < line.texts(); ++i) {
      const std::string scored =
          line.is_choice() ? options.delimiter + line.choices[i] : line.continuation;
      const std::string what =
          line.is_choice() ? fmt::format("choice {}", i) : std::string("the continuation");
      auto tokens = tokens_of(of_tasks, options.examples + line.context, scored);
      if (!tokens) {
        problems.add(
            "{}: the context is empty, and the tokenizer has no begin or end token to stand for it",
            file.where(line));
      } else if (tokens->scored < 1) {
        problems.add("{}: {} adds no token to those of its context", file.where(line), what);
      } else {
        texts.push_back(std::move(*tokens));
      }
    }
  }
  problems.throw_if_any();
  return texts;
}

int64_t longest_read(const std::vector<ScoredTokens>& texts) {
  int64_t longest = 0;
  for (const ScoredTokens& text : texts) longest = std::max(longest, text.read());
  return longest;
}

int64_t cut_to_row(const TaskFile& file, int64_t row, std::vector<ScoredTokens>& texts) {
  Problems problems;
  int64_t shortened = 0;
  auto text = texts.begin();
  for (const TaskLine& line : file.lines) {
    for (size_t i = 0; i < line.texts(); ++i, ++text) {
      if (text->read() <= row) continue;
      if (text->scored > row) {
        problems.add("{}: {} tokens to score, at most the {} of a row are possible",
                     file.where(line), text->scored, row);
        continue;
      }
      text->ids.erase(text->ids.begin(), text->ids.end() - (row + 1));
      ++shortened;
    }
  }
  problems.throw_if_any();
  return shortened;
}

}  // namespace viaduct
