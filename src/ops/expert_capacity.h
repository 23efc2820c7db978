#pragma once
// A limit on the tokens of an expert (Fedus et al. 2021, section 2.2), or of the experts of a rank
// together: choices beyond it are dropped.

#include <array>
#include <string_view>

#include "ops/dispatch.h"

namespace viaduct {

/// Which choices of a full expert, or run of experts, stay.
enum class DropPolicy {
  probabilities,  // those of the largest probability, of equal ones of the first tokens
  position,       // those of the first tokens
};
constexpr auto choice_names(DropPolicy) {
  return std::to_array<std::string_view>({"probs", "position"});
}

/// Each expert keeps at most `capacity` of its choices; with `experts_together` g > 1 each run of g
/// neighbouring experts does, whichever of them its choices name. The others become −1 in `choice`,
/// and their probabilities 0; the probabilities of a token's remaining choices do not change.
/// Choices of one token count as tokens one after the other.
struct LimitExpertsArgs {
  Tensor choice;         // i32 [T, k], entries in [0, experts), or −1; changed
  Tensor probabilities;  // f32 or f64 [T, k], changed
  int64_t experts = 0, capacity = 0;
  DropPolicy policy = DropPolicy::probabilities;
  int64_t experts_together = 1;  // divides `experts`
};
void limit_experts(OpContext& context, const LimitExpertsArgs& args);

}  // namespace viaduct
