// Choices for the ops of the optimizer step on a GPU: lists of runs are one launch, AdamW's as many
// as its parameters need.

#include "ops/cuda/adamw_groups.h"
#include "ops/cuda/cuda_entry.h"

namespace viaduct::cuda {
namespace {

/// Blocks sum their values into states of their own, and a second launch merges the states, which
/// gives the same bits in any order.
template <class Args>
Choice choose_binned_sum(const Args& args, int64_t elements) {
  constexpr int64_t kElementsPerBlock = 65536, kMostBlocks = 1024;
  Choice choice = choose_kernel("binned_sum", args);
  const int64_t blocks =
      std::clamp<int64_t>((elements + kElementsPerBlock - 1) / kElementsPerBlock, 1, kMostBlocks);
  choice.workspace_bytes = blocks * kReproducibleSumSize * dtype_bytes(DType::f64);
  choice.launches = 2;
  return choice;
}

Choice choose_sum(const ReproducibleSumArgs& args, const Traits&) {
  return choose_binned_sum(args, args.x.elements());
}

Choice choose_sums(const ReproducibleSumsArgs& args, const Traits&) {
  int64_t elements = 0;
  for (const Tensor& x : args.x) elements += x.elements();
  return choose_binned_sum(args, elements);
}

/// One thread, a handful of numbers.
template <class Args>
Choice choose_scalars(const Args& args, const Traits&) {
  return choose_kernel("scalars", args);
}

template <class Args>
Choice choose_runs(const Args& args, const Traits&) {
  return choose_kernel("runs", args);
}

Choice choose_adamw(const AdamWListArgs& args, const Traits&) {
  Choice choice = choose_kernel("runs", args);
  choice.launches = 0;
  for_launches(args, [&](size_t, size_t) { ++choice.launches; });
  return choice;
}

}  // namespace

void add_optimizer(OpTable& table) {
  add_entry(table.reproducible_sum, choose_sum);
  add_entry(table.reproducible_sums, choose_sums);
  add_entry(table.widen_sum, choose_scalars<WidenSumArgs>);
  add_entry(table.narrow_sum, choose_scalars<NarrowSumArgs>);
  add_entry(table.sum_value, choose_scalars<SumValueArgs>);
  add_entry(table.gradient_norm, choose_scalars<GradientNormArgs>);
  add_entry(table.adamw, choose_adamw);
  add_entry(table.momentum, choose_runs<MomentumListArgs>);
  add_entry(table.adafactor_limits, choose_runs<AdafactorLimitsArgs>);
  add_entry(table.adafactor_sums, choose_runs<AdafactorSumsArgs>);
  add_entry(table.adafactor_moments, choose_runs<AdafactorMomentsArgs>);
  add_entry(table.adafactor_direction, choose_runs<AdafactorDirectionArgs>);
  add_entry(table.adafactor_update, choose_runs<AdafactorUpdateArgs>);
  add_entry(table.muon_momentum, choose_runs<MuonMomentumArgs>);
  add_entry(table.normalize, choose_runs<NormalizeArgs>);
  add_entry(table.muon_update, choose_runs<MuonUpdateArgs>);
  add_entry(table.expand_state, choose_runs<ExpandStateArgs>);
  add_entry(table.store_state, choose_runs<StoreStateArgs>);
}

}  // namespace viaduct::cuda
