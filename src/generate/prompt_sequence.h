#pragma once
// A prompt while it is continued: which token comes next, and whether the text ends with it.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "data/image_batch.h"
#include "generate/sampling.h"

namespace viaduct {

struct Prompt {
  /// Its number among all prompts of a run. Random numbers depend on number and position, so they
  /// do not depend on the prompt's batch.
  int64_t number = 0;
  std::vector<int32_t> ids;  // at least one
  int64_t max_new_tokens = 0;
  /// Whether the new tokens go on with its text; no: they answer it, with a text of their own.
  bool continues = false;
  int64_t adapter = 0;  // of the generator (Generator::use)
  /// Of a model with an encoder: what the encoder reads; `ids` then begin the decoder's row.
  std::vector<int32_t> input = {};
  /// Of a model that reads images: those whose tokens are among `ids`.
  ImageBatch images = {};

  /// The tokens whose text the new ones go on with.
  std::span<const int32_t> text_before() const {
    return continues ? std::span<const int32_t>(ids) : std::span<const int32_t>();
  }
  /// In the sequence that goes on.
  int64_t prompt_tokens() const { return static_cast<int64_t>(ids.size()); }
  /// The tokens of what was asked.
  const std::vector<int32_t>& asked() const { return input.empty() ? ids : input; }
  /// In both stacks.
  int64_t all_tokens() const { return static_cast<int64_t>(input.size()) + prompt_tokens(); }
};

struct GenerateOptions {
  SamplingOptions sampling;
  uint64_t seed = 1234;
  std::vector<int32_t> stop_tokens;  // end the text; are not part of it
  /// Whether to end the text now (StopReason::interrupted); none: never. Asked before each token,
  /// by the rank that chooses it, from several threads.
  std::function<bool()> interrupted = {};
};

enum class StopReason { stop_token, stop_string, length, interrupted };
/// As in JSON: "stop_token", …
std::string_view reason_name(StopReason reason);

struct Generated {
  std::vector<int32_t> tokens;  // the new ones
  StopReason reason = StopReason::length;
  std::optional<int32_t> stop_token;
};

class PromptSequence {
 public:
  /// `prompt` must outlive it. ShapeError for ids outside the vocabulary.
  PromptSequence(const Prompt& prompt, int64_t vocabulary);

  /// What `choose` gives instead of a token for a text that is interrupted.
  static constexpr int32_t kInterrupted = -1;
  /// The token that follows, from its logits. Errors as `pick_token`.
  int32_t choose(const GenerateOptions& options, std::span<const float> logits) const;
  /// Appends what was chosen, which `take` may make the last token by returning false
  /// (StopReason::stop_string). Returns whether the text goes on.
  bool accept(const GenerateOptions& options, int32_t id, FunctionRef<bool(int32_t id)> take);

  const Prompt& prompt() const { return *prompt_; }
  bool done() const { return done_; }
  /// Tokens of prompt and text.
  int64_t length() const {
    return prompt_->prompt_tokens() + static_cast<int64_t>(result_.tokens.size());
  }
  const Generated& result() const { return result_; }

 private:
  bool end(StopReason reason);

  const Prompt* prompt_;
  SeenTokens seen_;
  Generated result_;
  bool done_ = false;
};

}  // namespace viaduct
