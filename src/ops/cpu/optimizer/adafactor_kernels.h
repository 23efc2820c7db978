#pragma once
// What the kernels of Adafactor take and offer: rectangles and rows of a matrix in FP32.

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {

/// Rows of elements, `stride` apart.
struct AdafactorBlock {
  const float* gradient = nullptr;
  int64_t stride = 0, rows = 0, columns = 0;
};

/// Elements of one row of a matrix, or of a vector.
struct AdafactorRow {
  const float* gradient = nullptr;
  int64_t count = 0;
  float clip = 1, row_factor = 1;
  const float* column_factors = nullptr;  // null: a vector, with
  const float* second = nullptr;          // its mean squares
};

/// The mean squares of a vector, and what is added to them.
struct AdafactorSecond {
  const float* gradient = nullptr;
  float* second = nullptr;
  int64_t count = 0;
  float clip = 1, share = 1, epsilon = 0;  // share: 1 − β
};

struct AdafactorUpdateRun {
  float* master = nullptr;
  void* weight = nullptr;  // null: none
  DType weight_dtype = DType::f32;
  float decay = 0, step = 0;
};

struct AdafactorKernels {
  /// Largest magnitudes so far, as the bits of floats: their order is that of the numbers.
  void (*largest)(const AdafactorBlock& block, int32_t* of_rows, int32_t* of_columns);
  /// += Σ round(g² · unit) of each row and column.
  void (*sums)(const AdafactorBlock& block, const double* row_units, const double* column_units,
               double* of_rows, double* of_columns);
  void (*second)(const AdafactorSecond& of);
  void (*direction)(const AdafactorRow& row, float* out);
  /// p ← p − decay · p − step · direction.
  void (*update)(const AdafactorRow& row, const AdafactorUpdateRun& run);
};

VIADUCT_KERNELS(AdafactorKernels, adafactor_kernels)

/// The entries of Adafactor, a part of add_optimizer_state.
void add_adafactor(OpTable& table, CpuIsa isa);

}  // namespace viaduct::cpu
