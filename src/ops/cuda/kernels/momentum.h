#pragma once
// SGD and Lion over a list of runs (ops/momentum.h), and the elementwise steps of Muon
// (ops/muon.h), with the cpu's bits.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

struct MomentumRun {
  float *master, *state;
  const float* gradient;
  void* weight;  // may be absent
  int64_t elements;
  int64_t first_block;  // of this run; set by the launch
};

/// Runs with the same constants; slots of `scalars` in device memory.
struct MomentumList {
  static constexpr int kMostRuns = 64;
  const double* scalars;
  int skip, clip_factor, learning_rate, weight_decay_factor;
  bool lion;
  double momentum, beta1, beta2, weight_decay;
  Format weight;
  int runs;
  MomentumRun run[kMostRuns];
};
void momentum(MomentumList& args, Stream stream);

struct MuonMomentum {
  const double* scalars;
  int skip, clip_factor;
  const float* gradient;
  float *state, *out;
  int64_t elements;
  double momentum;
  bool nesterov;
};
void muon_momentum(const MuonMomentum& args, Stream stream);

/// x /= max(√sum, epsilon).
struct Normalized {
  float* x;
  const double* sum;
  int64_t elements;
  double epsilon;
};
void normalize(const Normalized& args, Stream stream);

struct MuonUpdate {
  const double* scalars;
  int skip, learning_rate, weight_decay_factor;
  float* master;
  const float* update;
  Vector weight;  // may be absent
  int64_t elements;
  double weight_decay;
};
void muon_update(const MuonUpdate& args, Stream stream);

}  // namespace viaduct::cuda
