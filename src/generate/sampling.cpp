#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace viaduct {
namespace {

struct Candidate {
  double weight;  // exp((logit − largest) / temperature): proportional to the probability
  int64_t id;
};

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

/// 53 random bits in [0, 1).
double uniform(const DrawKey& key) {
  const auto bits =
      philox4x32(philox_key({key.seed, hash64("generate")}), key.position, key.sequence);
  const uint64_t joined = (uint64_t{bits[1]} << 32) | bits[0];
  return static_cast<double>(joined >> 11) * 0x1p-53;
}

double total_weight(const std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

/// Keeps the most likely candidates, in falling order, until their share reaches p. A heap, so that
/// the usual short nucleus does not cost a sort of the vocabulary.
void keep_nucleus(std::vector<Candidate>& candidates, double p) {
  const double goal = p * total_weight(candidates);
  const auto less_likely = [](const Candidate& a, const Candidate& b) { return more_likely(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), less_likely);
  auto heap_end = candidates.end();
  double reached = 0;
  do {
    std::pop_heap(candidates.begin(), heap_end, less_likely);
    --heap_end;
    reached += heap_end->weight;
  } while (reached < goal && heap_end != candidates.begin());
  candidates.erase(candidates.begin(), heap_end);
  std::reverse(candidates.begin(), candidates.end());
}

}  // namespace

void check(const SamplingOptions& options) {
  std::vector<std::string> problems;
  if (!(std::isfinite(options.temperature) && options.temperature >= 0)) {
    problems.push_back(
        fmt::format("temperature must be finite and not negative, found {}", options.temperature));
  }
  if (options.top_k < 0)
    problems.push_back(fmt::format("top-k must not be negative, found {}", options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    problems.push_back(fmt::format("top-p must be in (0, 1], found {}", options.top_p));
  }
  if (!(std::isfinite(options.repetition_penalty) && options.repetition_penalty > 0)) {
    problems.push_back(fmt::format("repetition-penalty must be finite and above 0, found {}",
                                   options.repetition_penalty));
  }
  if (!problems.empty()) throw ConfigError(problems);
}

void SeenTokens::add(int32_t id) {
  VIADUCT_CHECK(ShapeError, id >= 0 && static_cast<size_t>(id) < seen_.size(),
                "sampling: token {} of a vocabulary of {}", id, seen_.size());
  if (seen_[static_cast<size_t>(id)]) return;
  seen_[static_cast<size_t>(id)] = true;
  ids_.push_back(id);
}

void penalize(std::span<float> logits, const SeenTokens& seen, double repetition_penalty) {
  if (repetition_penalty == 1) return;
  const auto penalty = static_cast<float>(repetition_penalty);
  for (const int32_t id : seen.ids()) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

int64_t greedy_token(std::span<const float> logits) {
  VIADUCT_CHECK(ShapeError, !logits.empty(), "sampling: no logits");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  int64_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    VIADUCT_CHECK(DeviceError, !std::isnan(logits[i]) && logits[i] != kInfinity,
                  "sampling: the logit of token {} is {}", i, logits[i]);
    if (logits[i] > logits[static_cast<size_t>(best)]) best = static_cast<int64_t>(i);
  }
  VIADUCT_CHECK(DeviceError, logits[static_cast<size_t>(best)] != -kInfinity,
                "sampling: all {} logits are minus infinity", logits.size());
  return best;
}

int64_t pick_token(std::span<const float> logits, const SamplingOptions& options,
                   const DrawKey& key) {
  check(options);
  const int64_t best = greedy_token(logits);
  if (options.temperature == 0 || options.top_k == 1) return best;
  const double largest = logits[static_cast<size_t>(best)];
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight =
        std::exp((static_cast<double>(logits[i]) - largest) / options.temperature);
    if (weight > 0) candidates.push_back({weight, static_cast<int64_t>(i)});
  }
  const size_t k = static_cast<size_t>(options.top_k);
  if (k > 0 && k < candidates.size()) {
    std::partial_sort(candidates.begin(), candidates.begin() + options.top_k, candidates.end(),
                      more_likely);
    candidates.resize(k);
  }
  if (options.top_p < 1) keep_nucleus(candidates, options.top_p);
  double rest = uniform(key) * total_weight(candidates);
  for (const Candidate& c : candidates) {
    if (rest < c.weight) return c.id;
    rest -= c.weight;
  }
  // Rounding of the subtractions can pass the end by an ulp.
  return candidates.back().id;
}

}  // namespace viaduct
