#pragma once
// Layer norm and RMS norm over rows (ops/norm.h), statistics in FP32.

#include "ops/cuda/kernels/produced_rows.h"

namespace viaduct::cuda {

struct NormForwardRows {
  bool layer_norm;
  Rows x, y;            // y may be x
  Vector weight, bias;  // bias may be absent
  float *mean, *rstd;   // null: not wanted
  int64_t rows, width;
  float epsilon, weight_offset;
  ProducedRows forms = {};  // of y
};
void norm_forward(const NormForwardRows& args, Stream stream);

/// Rows are cut into `parts`; each part's sums of d_weight, and after all of them those of d_bias,
/// are in `partial` [parts, width] each until a second launch adds them in order.
struct NormBackwardRows {
  bool layer_norm;
  Rows dy, x, dx_add, dx;
  Vector weight;
  const float *mean, *rstd;
  float *d_weight, *d_bias;  // +=; d_bias may be null
  float* partial;
  int64_t parts, rows, width;
  float weight_offset;
};
void norm_backward(const NormBackwardRows& args, Stream stream);

/// out [width] (= or +=) Σ x over rows, in parts like these: partial [parts, width].
struct ColumnSums {
  Rows x;
  float *out, *partial;
  bool accumulate;
  int64_t parts, rows, width;
};
void column_sums(const ColumnSums& args, Stream stream);

/// out (= or +=) Σ partial[p], in order; the same for `second` (null: none), whose parts follow.
struct PartSums {
  const float* partial;
  float *out, *second;
  bool accumulate;
  int64_t parts, width;
};
void add_parts(const PartSums& args, Stream stream);

}  // namespace viaduct::cuda
