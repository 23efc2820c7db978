#pragma once
// A sequence whose key-value cache is kept between prompts: of a prompt that begins like what is
// cached (the next turn of a conversation) only the rest is computed.

#include "generate/generator.h"
#include "generate/prompt_sequence.h"

namespace viaduct {

class KeptSequence {
 public:
  /// Tokens of a prompt that are fed in one pass: enough for the GEMMs' full speed. An interrupted
  /// prompt ends with the pass.
  static constexpr int64_t kPassTokens = 512;

  /// Starts the generator's only sequence; nobody else may feed it. ConfigError if the generator
  /// has other replicas of the model.
  explicit KeptSequence(Generator& generator);

  /// Continues a prompt, with the tokens that `generate` would choose up to rounding: it feeds the
  /// tokens behind the longest beginning that prompt and cache have in common, at least the last
  /// one; a cache that goes on differently is cut there, and one of another adapter or with other
  /// images is dropped. The tokens of all images are fed in one pass.
  /// `take` as TakeToken. All ranks of the model make the same call and get the same result. Errors
  /// as `generate`; the cache stays usable after them.
  Generated answer(const Prompt& prompt, const GenerateOptions& options,
                   FunctionRef<bool(int32_t id)> take);

  /// The tokens in the cache.
  const std::vector<int32_t>& cached() const { return cached_; }
  /// Tokens of the last prompt that were in the cache already.
  int64_t reused() const { return reused_; }

 private:
  /// Feeds tokens and gives what `sequence` chooses to follow them.
  int32_t feed(std::vector<int32_t> ids, const PromptSequence& sequence,
               const GenerateOptions& options);

  Generator& generator_;
  std::vector<int32_t> cached_;  // the generator's sequence has these tokens, or these and more
  ImageBatch images_;            // of these
  int64_t reused_ = 0;
};

}  // namespace viaduct
