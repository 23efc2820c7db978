#pragma once
// Which runs of a list AdamW updates in one launch on a GPU.

#include "ops/cuda/kernels/adamw.h"
#include "ops/optimizer.h"

namespace viaduct::cuda {

/// Whether two runs of a list differ only in their tensors.
inline bool same_constants(const AdamWArgs& a, const AdamWArgs& b) {
  return a.beta1 == b.beta1 && a.beta2 == b.beta2 && a.epsilon == b.epsilon &&
         a.weight_decay == b.weight_decay &&
         a.learning_rate_multiplier == b.learning_rate_multiplier &&
         a.learning_rate == b.learning_rate;
}

/// Calls f(first, end) for runs [first, end) of each launch: neighbours with the same constants, as
/// many as a kernel's parameters hold.
template <class F>
void for_launches(const AdamWListArgs& args, F&& f) {
  const auto& runs = args.runs;
  for (size_t first = 0, end; first < runs.size(); first = end) {
    end = first + 1;
    while (end < runs.size() && end - first < AdamWList::kMostRuns &&
           same_constants(runs[end], runs[first]))
      ++end;
    f(first, end);
  }
}

}  // namespace viaduct::cuda
