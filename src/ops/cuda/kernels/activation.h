#pragma once
// Activation functions over rows (ops/activation.h), computed in FP32.

#include "ops/cuda/kernels/produced_rows.h"

namespace viaduct::cuda {

/// As viaduct::ActivationKind.
enum class ActivationFunction : uint8_t { gelu, gelu_tanh, quick_gelu, silu, relu, squared_relu };

struct ActivationRows {
  ActivationFunction function;
  bool gated, interleaved = false;
  float clamp = 0, offset = 0;  // of the gate's shape
  Rows in;                      // [rows, 2 width] if gated, else [rows, width]
  Rows out;                     // forward: the result; backward: its gradient, which is read
  Rows d_in;                    // backward; may be `in`
  int64_t rows, width;
  ProducedRows forms = {};  // of the forward's result
};
void activation_forward(const ActivationRows& args, Stream stream);
void activation_backward(const ActivationRows& args, Stream stream);

}  // namespace viaduct::cuda
