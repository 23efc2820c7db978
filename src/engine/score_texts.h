#pragma once
// Log-likelihoods of given tokens, each after a context of its own, in any layout: what an
// evaluation on tasks asks of a model.
//
// Texts are documents of packed micro-batches that all have the same number of tokens, so memory
// does not grow with their number or their lengths. Data ranks share the micro-batches. Logits are
// made of scored tokens alone, and chunk by chunk.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/tasks/task_scores.h"
#include "engine/engine.h"

namespace viaduct {

/// `token` is scored by the model's distribution after the text's tokens 0 … position, for
/// `request`.
struct TokenTarget {
  int64_t position = 0;
  int32_t token = 0;
  size_t request = 0;
};

/// Tokens that the model reads, and what is scored after them.
struct TextToScore {
  std::vector<int32_t> ids;
  std::vector<TokenTarget> targets;
};

/// A text that begins another one is scored with that, since a model never looks ahead: of choices
/// of one token after the same context only one is read. Sorted by length, longest first.
std::vector<TextToScore> join_texts(std::vector<TextToScore> texts);

struct ScoringSettings {
  int64_t micro_batch_tokens = 0;  // of a micro-batch of a data rank
  size_t requests = 0;             // numbered 0 …
};

struct ScoringHooks {
  /// As EvaluationHooks::stop.
  std::function<bool()> stop = {};
  /// Called with the numbers of finished and of all micro-batches of this rank.
  std::function<void(int64_t done, int64_t of)> progress = {};
};

/// The scores by request, the same on all ranks, which make the same call; nothing if it was
/// stopped. ShapeError for a text of more tokens than a micro-batch or than the engine's positions.
std::optional<std::vector<TextLikelihood>> score_texts(Engine& engine,
                                                       const std::vector<TextToScore>& texts,
                                                       const ScoringSettings& settings,
                                                       const ScoringHooks& hooks = {});

}  // namespace viaduct
