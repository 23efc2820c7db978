#pragma once
// Which runs of a list an optimizer updates in one launch on a GPU.

#include "ops/cuda/kernels/adamw.h"
#include "ops/cuda/kernels/momentum.h"
#include "ops/momentum.h"
#include "ops/optimizer.h"

namespace viaduct::cuda {

/// Whether two runs of a list differ only in their tensors.
inline bool same_constants(const AdamWArgs& a, const AdamWArgs& b) {
  return a.beta1 == b.beta1 && a.beta2 == b.beta2 && a.epsilon == b.epsilon &&
         a.weight_decay == b.weight_decay &&
         a.learning_rate_multiplier == b.learning_rate_multiplier &&
         a.learning_rate == b.learning_rate;
}
inline bool same_constants(const MomentumArgs& a, const MomentumArgs& b) {
  return a.rule == b.rule && a.momentum == b.momentum && a.beta1 == b.beta1 && a.beta2 == b.beta2 &&
         a.weight_decay == b.weight_decay && a.learning_rate == b.learning_rate;
}

/// Calls f(first, end) for runs [first, end) of each launch: neighbours with the same constants, as
/// many as a kernel's parameters hold.
template <class Args, class F>
void for_launches(const std::vector<Args>& runs, size_t most, F&& f) {
  for (size_t first = 0, end; first < runs.size(); first = end) {
    end = first + 1;
    while (end < runs.size() && end - first < most && same_constants(runs[end], runs[first])) ++end;
    f(first, end);
  }
}

/// AdamW with masters and moments in FP32 has a kernel of its own: it reads and writes everything
/// in the format of the arithmetic. The runs of a list have one format of each.
inline bool is_coded(const AdamWListArgs& args) {
  const AdamWArgs& run = args.runs.front();
  return run.master.dtype() != DType::f32 || run.first.dtype() != DType::f32 ||
         run.second.dtype() != DType::f32;
}

template <class F>
void for_launches(const AdamWListArgs& args, F&& f) {
  for_launches(args.runs, is_coded(args) ? CodedAdamWList::kMostRuns : AdamWList::kMostRuns, f);
}
template <class F>
void for_launches(const MomentumListArgs& args, F&& f) {
  for_launches(args.runs, MomentumList::kMostRuns, f);
}

}  // namespace viaduct::cuda
