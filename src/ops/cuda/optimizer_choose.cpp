// Choices for the ops of the optimizer step on a GPU: a list of runs is as many launches
// as its parameters need.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/adafactor.h"
#include "ops/cuda/kernels/binned_sum.h"
#include "ops/cuda/run_groups.h"
#include "ops/cuda/sum_blocks.h"

namespace viaduct::cuda {
namespace {

/// Blocks sum their values into states of their own, and a last launch merges the states, which
/// gives the same bits in any order.
template <class Args>
Choice choose_binned_sum(const Args& args, const std::vector<Tensor>& x) {
  Choice choice = choose_kernel("binned_sum", args);
  int64_t elements = 0, blocks = 0, runs = 0;
  for (const Tensor& run : x) elements += run.elements();
  for (const Tensor& run : x) {
    if (run.elements() == 0) continue;
    ++runs;
    blocks += sum_blocks_of(run.elements(), elements_per_sum_block(elements));
  }
  choice.workspace_bytes = blocks * kReproducibleSumSize * dtype_bytes(DType::f64);
  choice.launches = static_cast<int>((runs + SumList::kMostRuns - 1) / SumList::kMostRuns) + 1;
  return choice;
}

Choice choose_sum(const ReproducibleSumArgs& args, const Traits&) {
  return choose_binned_sum(args, {args.x});
}

Choice choose_sums(const ReproducibleSumsArgs& args, const Traits&) {
  return choose_binned_sum(args, args.x);
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

/// Lists of runs, as many launches as their parameters need.
template <class Args>
Choice choose_lists(const Args& args, const Traits&) {
  Choice choice = choose_kernel("runs", args);
  choice.launches = 0;
  for_launches(args, [&](size_t, size_t) { ++choice.launches; });
  return choice;
}

/// A launch for each piece: pieces of a matrix add to the same rows and columns.
template <class Args>
Choice choose_pieces(const Args& args, const Traits&) {
  Choice choice = choose_kernel("pieces", args);
  choice.launches = static_cast<int>(args.pieces.size());
  return choice;
}

Choice choose_moments(const AdafactorMomentsArgs& args, const Traits&) {
  constexpr size_t kMost = AdafactorMoments::kMostMatrices;
  Choice choice = choose_kernel("block_per_matrix", args);
  choice.launches = static_cast<int>((args.matrices.size() + kMost - 1) / kMost);
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
  add_entry(table.adamw, choose_lists<AdamWListArgs>);
  add_entry(table.momentum, choose_lists<MomentumListArgs>);
  add_entry(table.adafactor_limits, choose_pieces<AdafactorLimitsArgs>);
  add_entry(table.adafactor_sums, choose_pieces<AdafactorSumsArgs>);
  add_entry(table.adafactor_moments, choose_moments);
  add_entry(table.adafactor_direction, choose_runs<AdafactorDirectionArgs>);
  add_entry(table.adafactor_update, choose_pieces<AdafactorUpdateArgs>);
  add_entry(table.muon_momentum, choose_runs<MuonMomentumArgs>);
  add_entry(table.normalize, choose_runs<NormalizeArgs>);
  add_entry(table.muon_update, choose_runs<MuonUpdateArgs>);
  add_entry(table.expand_state, choose_runs<ExpandStateArgs>);
  add_entry(table.store_state, choose_runs<StoreStateArgs>);
}

}  // namespace viaduct::cuda
