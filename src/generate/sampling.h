#pragma once
// Choosing the next token from its logits: greedy, temperature, top-k, top-p. A pure function: the
// same logits, options and key give the same token, whatever the thread count and the rest of the
// batch.

#include <cstdint>
#include <span>
#include <vector>

namespace viaduct {

/// Applied in the customary order: repetition penalty, temperature, then top-k, then top-p over
/// what top-k left.
struct SamplingOptions {
  /// Divides the logits; 0 is greedy.
  double temperature = 1.0;
  /// Keeps the k most likely tokens; 0 keeps all.
  int64_t top_k = 0;
  /// Keeps the fewest most likely tokens whose probabilities reach p, at least one (Holtzman et al.
  /// 2020); 1 keeps all.
  double top_p = 1.0;
  /// Positive logits of tokens already in the sequence are divided by it, negative ones multiplied
  /// (Keskar et al. 2019, section 4.1, as in transformers); 1 has no effect.
  double repetition_penalty = 1.0;
};

/// Selects the random number: one per (seed, sequence of the batch, position of the token in it).
struct DrawKey {
  uint64_t seed = 0;
  uint64_t sequence = 0;
  uint64_t position = 0;
};

/// ConfigError that lists all problems: temperature not finite or negative, top_k negative, top_p
/// not in (0, 1], repetition_penalty not finite or not above 0.
void check(const SamplingOptions& options);

/// The most likely token; of equal ones the lowest id. Errors as `pick_token`.
int64_t greedy_token(std::span<const float> logits);

/// The tokens of a sequence, each once.
class SeenTokens {
 public:
  explicit SeenTokens(int64_t vocabulary) : seen_(static_cast<size_t>(vocabulary), false) {}
  /// ShapeError for ids outside the vocabulary.
  void add(int32_t id);
  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  std::vector<bool> seen_;
  std::vector<int32_t> ids_;
};

/// Applies SamplingOptions::repetition_penalty to the logits of `seen`.
void penalize(std::span<float> logits, const SeenTokens& seen, double repetition_penalty);

/// A token id in [0, logits.size()), from logits to which `penalize` was applied. Of equal logits
/// the lowest id counts as more likely. A logit of −∞ is never chosen. DeviceError if a logit is
/// NaN or +∞ (names id), or if none is above −∞; ShapeError if there are none.
int64_t pick_token(std::span<const float> logits, const SamplingOptions& options,
                   const DrawKey& key);

}  // namespace viaduct
