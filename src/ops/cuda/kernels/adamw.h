#pragma once
// AdamW over a list of runs (ops/optimizer.h), with the cpu's bits. Runs are passed in the kernel's
// parameters, which hold kMostRuns of them.

#include "ops/cuda/kernels/optimizer_state.h"
#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// Masters and moments in FP32.
struct AdamWRun {
  float *master, *first, *second;
  Vector gradient, weight;  // weight may be absent
  int64_t elements;
  int64_t first_block;  // of this run; set by the launch
};

/// Constants of the run; what changes from step to step is in `scalars`.
struct AdamWConstants {
  const double* scalars;  // StepScalar slots, in device memory
  int skip, clip_factor, learning_rate, weight_decay_factor, bias_correction1, bias_correction2;
  double beta1, beta2, epsilon, weight_decay, learning_rate_multiplier;
};

struct AdamWList {
  static constexpr int kMostRuns = 40;
  AdamWConstants constants;
  int runs;
  AdamWRun run[kMostRuns];
};
void adamw(AdamWList& args, Stream stream);

/// The same with masters and moments in stored formats, one format of each for the whole list.
struct CodedAdamWRun {
  void *master, *first, *second;
  float *master_scales, *first_scales, *second_scales;  // of scaled formats
  const void* gradient;
  void* weight;  // may be absent; with remainders the upper half of the master
  int64_t elements;
  int64_t first_block;  // of this run; set by the launch
};

struct CodedAdamWList {
  static constexpr int kMostRuns = 40;
  AdamWConstants constants;
  StateFormat master, first, second;
  Format gradient, weight;
  int runs;
  CodedAdamWRun run[kMostRuns];
};
void adamw_coded(CodedAdamWList& args, Stream stream);

}  // namespace viaduct::cuda
