#pragma once
// Which neighbouring operations of a layer run as one op. Off: one op each, with its result in
// memory, and the same results within rounding.

namespace viaduct {

struct Fusions {
  bool bias_activation = true;  // bias of fc1 in its GEMM; a gated activation with its product
  bool bias_dropout = true;     // biases of proj and fc2 in their GEMMs; dropout with the residual
  bool gradient_accumulation = true;  // weight-gradient GEMMs add into the main gradient
  bool cross_entropy = true;  // softmax cross entropy chunk by chunk, no tensor of probabilities
  /// Activations and residuals in the GEMM before or after them, if the bias is in that GEMM and no
  /// other operation is in between: the same bits.
  bool gemm_epilogue = true;
};

}  // namespace viaduct
