#pragma once
// Elementwise kernels (ops/elementwise.h, ops/bias.h): arithmetic in FP32, the same bits as the
// cpu's.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

enum class Elementwise : uint8_t {
  add,         // a + b
  multiply,    // a · b
  scale,       // factor · a
  copy,        // a
  accumulate,  // out + a
  fill,        // factor
};

struct ElementwiseRows {
  Elementwise kind;
  Rows a, b, out;
  int64_t rows, width;
  int64_t rows_of_b = 1;  // number of rows with the same row of b
  float factor = 0;
};
void elementwise(const ElementwiseRows& args, Stream stream);

/// The same of dense FP64 tensors, in FP64: add, scale and fill.
struct ElementwiseF64 {
  Elementwise kind;
  const double *a, *b;
  double* out;
  double factor;
  int64_t count;
};
void elementwise_f64(const ElementwiseF64& args, Stream stream);

/// out [width] f32 = Σ x[r], in row order.
struct SumOfRows {
  Rows x;
  Vector out;
  int64_t rows, width;
};
void sum_rows(const SumOfRows& args, Stream stream);

/// to (= or +=) from, any strides. `raw_bytes`: equal dtypes of this many bytes, copied unchanged;
/// else 0, and values are converted.
struct StridedCopy {
  static constexpr int kMostDims = 6;
  const void* from;
  void* to;
  Format from_format, to_format;
  int raw_bytes = 0;
  bool accumulate = false;
  int dims = 0;
  int64_t sizes[kMostDims], from_strides[kMostDims], to_strides[kMostDims];
  int64_t elements;
};
void strided_copy(const StridedCopy& args, Stream stream);

}  // namespace viaduct::cuda
