#pragma once
// Reproducible sums and the values derived from them (ops/optimizer.h), with the cpu's bits: the
// state that a block writes depends only on its values, and merging states is a sum of integers.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

struct SumRun {
  const void* data;
  int64_t elements;
  int64_t first_block;  // of this run; set by the launch
};

/// Adds up the values of several runs; the states of their blocks go to `states`.
struct SumList {
  static constexpr int kMostRuns = 128;
  Format format;  // of all runs: f32, bf16 or f64
  bool squared;
  const float* weight;  // of the only run, or null
  int64_t elements_per_block;
  double* states;  // [blocks, 8]
  int runs;
  SumRun run[kMostRuns];
};
/// Returns the number of blocks.
int64_t sum_runs(SumList& args, Stream stream);
/// state += all `states` [count, 8].
void merge_sums(const double* states, int64_t count, double* state, Stream stream);

void widen_sum(const double* state, int64_t* wide, Stream stream);
void narrow_sum(const int64_t* wide, double* state, Stream stream);
void sum_value(const double* state, double* out, Stream stream);

/// Slots of `scalars`, in device memory.
struct NormScalars {
  const double* state;
  double* scalars;
  int gradient_factor, clip_norm, gradient_norm, clip_factor, skip;
  bool skip_not_finite;
};
void gradient_norm(const NormScalars& args, Stream stream);

}  // namespace viaduct::cuda
