#pragma once
// What the optimizer kernels of an instruction set take and offer.

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {

/// Values to add up: x, or x · weight, squared or not, computed in FP64.
struct SumRun {
  const void* x = nullptr;
  bool f64 = false;
  const float* weight = nullptr;
  bool squared = false;
};

/// AdamW over one run; factors as in the contract, taken together where they only multiply.
struct AdamWRun {
  float* master = nullptr;
  const float* gradient = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  void* weight = nullptr;  // null: none
  DType weight_dtype = DType::f32;
  float clip = 1, decay = 0;  // decay: lr · weight decay
  float beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1;
  float step = 0;         // lr · multiplier / bias_correction1
  float correction2 = 1;  // 1 / bias_correction2
  float epsilon = 0;
};

struct OptimizerKernels {
  /// Largest magnitude of the values [begin, end); false if one is not finite.
  bool (*largest)(const SumRun& run, int64_t begin, int64_t end, double* largest);
  /// Integer sums of the pieces of the values in three bins; `scale` turns values into units of the
  /// top bin. At most kSumBlock values.
  void (*pieces)(const SumRun& run, int64_t begin, int64_t end, double scale, int64_t bins[3]);
  void (*adamw)(const AdamWRun& run, int64_t begin, int64_t end);
};

/// Sums of this many pieces of 2^39 units fit into 64 bits; half of the first-level cache.
inline constexpr int64_t kSumBlock = 4096;

VIADUCT_KERNELS_WITH_BF16(OptimizerKernels, optimizer_kernels)

/// The entry of AdamW, a part of add_optimizer.
void add_adamw(OpTable& table, CpuIsa isa);

}  // namespace viaduct::cpu
