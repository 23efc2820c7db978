#include "generate/kept_sequence.h"

#include <algorithm>

#include "base/error.h"
#include "generate/generate.h"

namespace viaduct {
namespace {

/// Tokens of a prompt up to the last one of an image.
int64_t tokens_of_images(const Prompt& prompt, const VisionConfig& vision) {
  if (prompt.images.empty()) return 0;
  const auto last = std::find(prompt.ids.rbegin(), prompt.ids.rend(), vision.image_token);
  return prompt.ids.rend() - last;
}

}  // namespace

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
  const int64_t of_images = tokens_of_images(prompt, generator_.model().config().vision);
  if (prompt.images != images_ || next - prompt.ids.begin() < of_images) next = prompt.ids.begin();
  reused_ = next - prompt.ids.begin();
  cached_.resize(static_cast<size_t>(reused_));
  generator_.truncate(0, reused_);
  if (reused_ == 0) images_ = {};
  if (sequence.done()) return sequence.result();
  if (reused_ == 0) {
    images_ = prompt.images;
    generator_.show(0, images_);
  }

  int32_t chosen = PromptSequence::kInterrupted;
  while (next != prompt.ids.end()) {
    const int64_t together =
        std::max(kPassTokens, next == prompt.ids.begin() ? of_images : int64_t{0});
    const auto end = next + std::min<int64_t>(together, prompt.ids.end() - next);
    chosen = feed({next, end}, sequence, options);
    next = end;
    if (chosen == PromptSequence::kInterrupted) break;
  }
  while (sequence.accept(options, chosen, take)) chosen = feed({chosen}, sequence, options);
  return sequence.result();
}

}  // namespace viaduct
