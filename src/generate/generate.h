#pragma once
// The loop of generation: the prompts of a batch in few passes, then one token of each at a time.

#include <span>
#include <vector>

#include "generate/generator.h"
#include "generate/prompt_sequence.h"

namespace viaduct {

/// Called with each new token of prompt `i` of the batch; returns false to end the text with it
/// (StopReason::stop_string). All ranks of a replica must return the same.
using TakeToken = FunctionRef<bool(size_t i, int32_t id)>;

/// Continues each prompt, from a fresh cache. The same prompt, number, weights, options and seed
/// give the same tokens in every batch. All ranks of a replica make the same call and get the same
/// result. ConfigError for an empty prompt, if prompt and new tokens exceed the positions, or for
/// sampling options that are out of range.
std::vector<Generated> generate(Generator& generator, std::span<const Prompt> prompts,
                                const GenerateOptions& options, TakeToken take);

/// ConfigError if there is no prompt, for one without tokens, for one that exceeds the generator's
/// positions with its new tokens, and for prompts of different adapters: they are of one model.
void check_prompts(const Generator& generator, std::span<const Prompt> prompts);

/// Divides the prompts into passes of about this many tokens, whole prompts: each an index range.
struct PromptPass {
  size_t begin = 0, end = 0;
};
std::vector<PromptPass> prompt_passes(std::span<const Prompt> prompts);

/// A dry run of generation on a device that does not compute: each prompt to its last token. It
/// allocates the same as the longest possible generation.
void rehearse(Generator& generator, std::span<const Prompt> prompts);

}  // namespace viaduct
