#pragma once
// What a model in training says to given prompts (validation.sample_prompts).

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "engine/engine.h"
#include "generate/prompts.h"
#include "template/template_clock.h"

namespace viaduct {

/// How a run asks its prompts.
struct PromptAsking {
  /// A line is a message of a user, put by the chat template; false: a text to continue.
  bool as_messages = false;
  /// The folder or GGUF file of the tokenizer, which has the chat template.
  std::filesystem::path tokenizer = {};
  TemplateClock clock = {};              // that the template shows
  const ModelConfig* encoder = nullptr;  // a model whose encoder reads the prompts; null: none does
};

struct SamplePrompts {
  std::vector<PromptText> texts;            // as the model reads them
  std::vector<Prompt> prompts;              // in tokens, in the same order
  std::optional<int32_t> end_of_turn = {};  // the token with which the template ends answers
  std::string form = {};                    // how they are asked, for the log
};

/// Reads the file that validation.sample_prompts names. A line of JSONL with `messages` is a
/// conversation whatever `asking` says; other lines are messages of a user or texts. Without a chat
/// template messages are texts too, which `form` says. An answer has at most `new_tokens` tokens,
/// fewer where prompt and answer would exceed `positions`. ConfigError that lists the prompts that
/// are empty, not UTF-8, leave no room, are conversations that cannot be put, or lines of JSONL
/// without a prompt.
SamplePrompts read_sample_prompts(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                  const PromptAsking& asking, int64_t positions,
                                  int64_t new_tokens);

/// The continuation of each prompt by the most probable tokens, up to one that ends it, as a screen
/// shows it. All ranks of the engine's run make the same call and get the same answers.
std::vector<std::string> answer_prompts(Engine& engine, const Tokenizer& tokenizer,
                                        const SamplePrompts& prompts);

}  // namespace viaduct
