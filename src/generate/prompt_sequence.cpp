#include "generate/prompt_sequence.h"

#include <algorithm>

namespace viaduct {

std::string_view reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::stop_token:
      return "stop_token";
    case StopReason::stop_string:
      return "stop_string";
    case StopReason::interrupted:
      return "interrupted";
    case StopReason::length:
      break;
  }
  return "length";
}

PromptSequence::PromptSequence(const Prompt& prompt, int64_t vocabulary)
    : prompt_(&prompt), seen_(vocabulary), done_(prompt.max_new_tokens == 0) {
  for (const int32_t id : prompt.ids) seen_.add(id);
}

int32_t PromptSequence::choose(const GenerateOptions& options,
                               std::span<const float> logits) const {
  if (options.interrupted && options.interrupted()) return kInterrupted;
  const DrawKey key{options.seed, static_cast<uint64_t>(prompt_->number),
                    static_cast<uint64_t>(length())};
  if (options.sampling.repetition_penalty == 1)
    return static_cast<int32_t>(pick_token(logits, options.sampling, key));
  std::vector<float> penalized(logits.begin(), logits.end());
  penalize(penalized, seen_, options.sampling.repetition_penalty);
  return static_cast<int32_t>(pick_token(penalized, options.sampling, key));
}

bool PromptSequence::end(StopReason reason) {
  result_.reason = reason;
  done_ = true;
  return false;
}

bool PromptSequence::accept(const GenerateOptions& options, int32_t id,
                            FunctionRef<bool(int32_t id)> take) {
  if (id == kInterrupted) return end(StopReason::interrupted);
  const auto& stops = options.stop_tokens;
  if (std::find(stops.begin(), stops.end(), id) != stops.end()) {
    result_.stop_token = id;
    return end(StopReason::stop_token);
  }
  result_.tokens.push_back(id);
  seen_.add(id);
  if (!take(id)) return end(StopReason::stop_string);
  if (static_cast<int64_t>(result_.tokens.size()) == prompt_->max_new_tokens)
    return end(StopReason::length);
  return true;
}

}  // namespace viaduct
