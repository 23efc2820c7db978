#include "generate/kept_sequence.h"

#include <algorithm>

#include "base/error.h"
#include "generate/generate.h"

namespace viaduct {

KeptSequence::KeptSequence(Generator& generator) : generator_(generator) {
  VIADUCT_CHECK(ConfigError, generator.replicas().size() == 1,
                "a conversation has one replica of the model, found {}: expected dist.ranks = "
                "model.tensor_model_parallel_size · model.pipeline_model_parallel_size",
                generator.replicas().size());
  generator_.start(1);
}

int32_t KeptSequence::feed(std::vector<int32_t> ids, const PromptSequence& sequence,
                           const GenerateOptions& options) {
  const std::vector<std::vector<int32_t>> feeds{std::move(ids)};
  const auto choose = [&](int64_t, std::span<const float> logits) {
    return sequence.choose(options, logits);
  };
  const int32_t chosen = generator_.step(feeds, choose).front();
  cached_.insert(cached_.end(), feeds[0].begin(), feeds[0].end());
  return chosen;
}

Generated KeptSequence::answer(const Prompt& prompt, const GenerateOptions& options,
                               FunctionRef<bool(int32_t id)> take) {
  check(options.sampling);
  check_prompts(generator_, {&prompt, 1});
  if (generator_.use(prompt.adapter)) cached_.clear();
  PromptSequence sequence(prompt, generator_.model().config().vocabulary);
  const auto differs =
      std::mismatch(prompt.ids.begin(), prompt.ids.end(), cached_.begin(), cached_.end()).first;
  // The last token is fed again, if need be: the logits behind it are not kept.
  auto next = std::min(differs, prompt.ids.end() - 1);
  reused_ = next - prompt.ids.begin();
  cached_.resize(static_cast<size_t>(reused_));
  generator_.truncate(0, reused_);
  if (sequence.done()) return sequence.result();

  int32_t chosen = PromptSequence::kInterrupted;
  while (next != prompt.ids.end()) {
    const auto end = next + std::min<int64_t>(kPassTokens, prompt.ids.end() - next);
    chosen = feed({next, end}, sequence, options);
    next = end;
    if (chosen == PromptSequence::kInterrupted) break;
  }
  while (sequence.accept(options, chosen, take)) chosen = feed({chosen}, sequence, options);
  return sequence.result();
}

}  // namespace viaduct
