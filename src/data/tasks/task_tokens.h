#pragma once
// The tokens of tasks: which a model reads and which of them are scored, as the evaluation harness
// of EleutherAI (lm_eval 0.4) has them.

#include <cstdint>
#include <string>
#include <vector>

#include "data/tasks/task_file.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// Tokens whose last `scored` ones are scored, each given those before it. The last one is only a
/// target: the model does not read it.
struct ScoredTokens {
  std::vector<int32_t> ids;
  int64_t scored = 0;  // 1 to ids.size() − 1

  /// How many the model reads.
  int64_t read() const { return static_cast<int64_t>(ids.size()) - 1; }
};

struct TaskTextOptions {
  /// Before every context (`few_shot_text`).
  std::string examples = {};
  /// Between a context and a choice. It is scored with the choice, and not counted in its length.
  std::string delimiter = " ";
};

/// The tokens of every choice and continuation of the file, line after line.
///
/// Context and choice are tokenized together, with the delimiter between them; a continuation
/// follows its context as it stands. What is scored begins where the context alone ends, without
/// the white space at its end, and follows the tokens of the context alone. The tokenizer adds its
/// beginning tokens, unless the text begins with the begin token's own text (the end token's,
/// without one). An empty context is the begin (else the end) token. ConfigError that lists the
/// lines where nothing is left to score, or that need a begin token that the tokenizer does not
/// have.
std::vector<ScoredTokens> task_tokens(const TaskFile& file, const Tokenizer& tokenizer,
                                      const TaskTextOptions& options);

/// The longest text that a model reads, in tokens.
int64_t longest_read(const std::vector<ScoredTokens>& texts);

/// Removes tokens on the left of texts of which a model would read more than `row`, and returns how
/// many it shortened. ConfigError that names the lines of which more than `row` tokens are scored.
int64_t cut_to_row(const TaskFile& file, int64_t row, std::vector<ScoredTokens>& texts);

}  // namespace viaduct
