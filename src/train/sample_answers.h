#pragma once
// What a model in training says to given prompts (validation.sample_prompts).

#include <filesystem>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "engine/engine.h"
#include "generate/prompts.h"
#include "report/metrics.h"

namespace viaduct {

struct SamplePrompts {
  std::vector<PromptText> texts;
  std::vector<Prompt> prompts;  // in tokens, in the same order
};

/// Reads the file that validation.sample_prompts names. An answer has at most `new_tokens` tokens,
/// fewer where prompt and answer would exceed `positions`. ConfigError that lists the prompts that
/// are empty or leave no room; IoError for lines of JSONL without a prompt.
SamplePrompts read_sample_prompts(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                  int64_t positions, int64_t new_tokens);

/// The continuation of each prompt by the most probable tokens, up to one that ends a text. All
/// ranks of the engine's run make the same call and get the same answers.
std::vector<SampleAnswer> answer_prompts(Engine& engine, const Tokenizer& tokenizer,
                                         const SamplePrompts& prompts);

}  // namespace viaduct
