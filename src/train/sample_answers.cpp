#include "train/sample_answers.h"

#include <algorithm>

#include "base/error.h"
#include "config/problems.h"
#include "data/tokenizer/text_ids.h"

namespace viaduct {
namespace {

// Prompts that are answered together; more would only take memory for their keys and values.
constexpr int64_t kAtOnce = 16;

}  // namespace

SamplePrompts read_sample_prompts(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                  int64_t positions, int64_t new_tokens) {
  SamplePrompts read{plain_prompts(read_prompt_file(file, "validation.sample_prompts")), {}};
  Problems problems;
  for (const PromptText& text : read.texts) {
    Prompt prompt{static_cast<int64_t>(read.prompts.size()), text_ids(tokenizer, text.text)};
    const int64_t room = positions - prompt.prompt_tokens();
    if (text.text.empty() || prompt.ids.empty()) {
      problems.add("validation.sample_prompts: {}: empty; expected a text to continue", text.where);
    } else if (room <= 0) {
      problems.add(
          "validation.sample_prompts: {}: {} tokens leave no room for an answer in "
          "model.seq_length={}",
          text.where, prompt.prompt_tokens(), positions);
    }
    prompt.max_new_tokens = std::min(new_tokens, room);
    read.prompts.push_back(std::move(prompt));
  }
  problems.throw_if_any();
  return read;
}

std::vector<SampleAnswer> answer_prompts(Engine& engine, const Tokenizer& tokenizer,
                                         const SamplePrompts& prompts) {
  const ResolvedRun& run = engine.run();
  GeneratorSettings settings{run.layers, run.parallelism, run.memory};
  settings.positions = longest(prompts.prompts);
  Generator generator({engine.model(), engine.context(false, false), engine.hooks()}, settings,
                      engine.groups());
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.stop_tokens = stop_tokens(tokenizer, engine.model().config());
  std::vector<SampleAnswer> answers(prompts.prompts.size());
  for (const std::vector<Prompt>& batch : batches_by_length(prompts.prompts, kAtOnce)) {
    const std::vector<Generated> generated =
        generate(generator, batch, options, [](size_t, int32_t) { return true; });
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto number = static_cast<size_t>(batch[i].number);
      answers[number] = {prompts.texts[number].text, tokenizer.decode_text(generated[i].tokens)};
    }
  }
  return answers;
}

}  // namespace viaduct
