#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
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

std::vector<Candidate> all_candidates(std::span<const float> logits,
                                      FunctionRef<double(double)> weight_of) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = weight_of(logits[i]);
    if (weight > 0) candidates.push_back({weight, static_cast<int64_t>(i)});
  }
  return candidates;
}

/// The k most likely ones in falling order, or all, in the order of the vocabulary, if they are no
/// more. A heap of logits, so that exponentials are taken of few.
std::vector<Candidate> top_candidates(std::span<const float> logits, int64_t k,
                                      FunctionRef<double(double)> weight_of) {
  const size_t kept = static_cast<size_t>(k) + 1;  // one more shows whether there are more
  std::vector<Candidate> heap;
  for (size_t i = 0; i < logits.size(); ++i) {
    const Candidate next{logits[i], static_cast<int64_t>(i)};
    if (heap.size() == kept) {
      if (!more_likely(next, heap.front())) continue;
      std::pop_heap(heap.begin(), heap.end(), more_likely);
      heap.back() = next;
    } else {
      heap.push_back(next);
    }
    std::push_heap(heap.begin(), heap.end(), more_likely);
  }
  for (Candidate& c : heap) c.weight = weight_of(c.weight);
  std::erase_if(heap, [](const Candidate& c) { return !(c.weight > 0); });
  const bool more = heap.size() == kept;
  std::sort(heap.begin(), heap.end(), [&](const Candidate& a, const Candidate& b) {
    return more ? more_likely(a, b) : a.id < b.id;
  });
  if (more) heap.pop_back();
  return heap;
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
  // Lanes, so that the compiler compares many at a time.
  constexpr size_t kLanes = 32;
  float most[kLanes];
  int wrong[kLanes] = {};
  std::fill_n(most, kLanes, -kInfinity);
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float logit = logits[i + j];
      most[j] = most[j] < logit ? logit : most[j];
      wrong[j] |= logit < kInfinity ? 0 : 1;
    }
  }
  for (size_t i = whole; i < logits.size(); ++i) {
    most[0] = std::max(most[0], logits[i]);
    wrong[0] |= logits[i] < kInfinity ? 0 : 1;
  }
  if (std::find(wrong, wrong + kLanes, 1) != wrong + kLanes) {
    const auto found = std::find_if(logits.begin(), logits.end(),
                                    [](float logit) { return !(logit < kInfinity); });
    fail<DeviceError>("sampling: the logit of token {} is {}", found - logits.begin(), *found);
  }
  const float largest = *std::max_element(most, most + kLanes);
  VIADUCT_CHECK(DeviceError, largest != -kInfinity, "sampling: all {} logits are minus infinity",
                logits.size());
  return std::find(logits.begin(), logits.end(), largest) - logits.begin();
}

int64_t pick_token(std::span<const float> logits, const SamplingOptions& options,
                   const DrawKey& key) {
  check(options);
  const int64_t best = greedy_token(logits);
  if (options.temperature == 0 || options.top_k == 1) return best;
  const double largest = logits[static_cast<size_t>(best)];
  const auto weight_of = [&](double logit) {
    return std::exp((logit - largest) / options.temperature);
  };
  std::vector<Candidate> candidates = options.top_k > 0
                                          ? top_candidates(logits, options.top_k, weight_of)
                                          : all_candidates(logits, weight_of);
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
