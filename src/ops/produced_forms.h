#pragma once
// What an op that makes a matrix makes of it besides, while its rows are in the cache: the largest
// magnitude, and a quantized form with scales of groups. Both are what `largest_magnitude` and
// `convert_operand` make of the finished matrix, bit by bit.

#include "ops/dispatch.h"
#include "tensor/operand.h"

namespace viaduct {

/// Outputs of an op that makes a matrix [R, C]; undefined ones are not made.
struct ProducedForms {
  /// f32 [1] = the largest magnitude; [2]: and that of the rotated matrix, R % 16 = 0
  /// (ops/largest_magnitude.h).
  Tensor amax = {};
  /// The matrix in a row-wise form with scales of groups of one row, and none of the whole matrix.
  Operand operand = {};
  bool any() const { return amax.defined() || operand.defined(); }
};

/// What the reader of a matrix would have its producer make.
struct FormsRequest {
  DType dtype = DType::f32;  // of the matrix
  Shape matrix;              // [R, C]
  int magnitudes = 0;        // elements of `amax`; 0: none
  OperandForm operand = {};  // plain: none
  /// The producer is a product with an activation (GemmEpilogue::activated); else it is
  /// `norm_forward` or `activation_forward`.
  bool product = false;
};

/// The outputs of a request that the backend's producers make, uninitialised.
ProducedForms allocate_forms(const OpContext& context, const FormsRequest& request, MemoryTag tag);

/// ShapeError unless the outputs fit the matrix; DeviceError if this backend does not make them.
void check_produced_forms(std::string_view op, const OpTable& ops, const ProducedForms& forms,
                          const Tensor& matrix, bool product = false);

/// What making them costs in addition to the matrix.
Cost cost_of(const ProducedForms& forms, const Tensor& matrix);

}  // namespace viaduct
