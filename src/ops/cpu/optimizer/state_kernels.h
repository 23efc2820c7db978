#pragma once
// What the kernels of optimizer state take and offer: formats of state, updates with a momentum,
// and the elementwise steps of Muon.

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {

/// A run of state in a stored format (tensor/state_formats.h).
struct StateRun {
  void* values = nullptr;
  float* scales = nullptr;      // of f16 and e4m3
  uint16_t* weights = nullptr;  // beside remainders (i16): bits of bf16
  DType dtype = DType::f32;
  bool lifts_zeros = false;  // second moments (tensor/state_rounding.h)
};

/// SGD or Lion over one run; factors as in the contract.
struct MomentumRun {
  float* master = nullptr;
  const float* gradient = nullptr;
  float* state = nullptr;
  void* weight = nullptr;  // null: none
  DType weight_dtype = DType::f32;
  bool lion = false;
  float clip = 1, lr = 0;
  float decay = 0;  // sgd: weight decay; lion: lr · weight decay
  float momentum = 0;
  float beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1;
};

/// The momentum of Muon over one run, and the update after the products.
struct MuonMomentumRun {
  const float* gradient = nullptr;
  float* state = nullptr;
  float* out = nullptr;
  float clip = 1, momentum = 0, one_minus_momentum = 1;
  bool nesterov = false;
};
struct MuonUpdateRun {
  float* master = nullptr;
  const float* update = nullptr;
  void* weight = nullptr;  // null: none
  DType weight_dtype = DType::f32;
  float lr = 0, decay = 0;  // decay: lr · weight decay
};

struct StateKernels {
  /// out[0 … count) = elements [begin, begin + count) of the run; `begin` starts a group.
  void (*expand)(const StateRun& run, int64_t begin, int64_t count, float* out);
  /// The inverse. `scale_of(largest magnitude)` is the scale of a group.
  void (*store)(const StateRun& run, int64_t begin, int64_t count, const float* in,
                float (*scale_of)(float largest));
  void (*momentum)(const MomentumRun& run, int64_t begin, int64_t end);
  void (*muon_momentum)(const MuonMomentumRun& run, int64_t begin, int64_t end);
  void (*muon_update)(const MuonUpdateRun& run, int64_t begin, int64_t end);
  void (*multiply)(float* x, int64_t count, float factor);
};

VIADUCT_KERNELS(StateKernels, state_kernels)

StateRun state_run(const Tensor& values, const Tensor& scales, const Tensor& weights);
/// The scale of a group in a format that has one; null for the others.
float (*scale_of(DType dtype))(float largest);

}  // namespace viaduct::cpu
