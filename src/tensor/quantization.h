#pragma once
// How the operands of a layer's products are quantized: formats of elements, and which elements
// share a scale. Backends turn it into forms of operands (ops/gemm.h).

#include <cstdint>

#include "tensor/dtype.h"

namespace viaduct {

enum class Scaling {
  none,    // operands are not quantized
  tensor,  // one FP32 scale for the matrix, from its largest magnitude now (Micikevicius et al.
           // 2022, "FP8 formats for deep learning", section 3)
  blocks,  // powers of two: 128 elements of activations and gradients, 128 × 128 of weights
           // (DeepSeek-V3 technical report, section 3.3)
  mx,      // powers of two in E8M0: 32 elements along the contracted dim (OCP Microscaling Formats
           // 1.0; Mishra et al. 2025, "Recipes for pre-training LLMs with MXFP8")
  nvfp4,   // elements of e2m1, E4M3 scales of 16 elements along the contracted dim, of 16 × 16 of
           // weights, beside one FP32 scale for the matrix. Operands of weight gradients are
           // rotated, gradients rounded stochastically (NVIDIA 2025, "Pretraining large language
           // models with NVFP4", section 3 and appendix B)
};

struct Quantization {
  Scaling scaling = Scaling::none;
  DType forward = DType::e4m3;   // elements of activations and weights
  DType gradient = DType::e4m3;  // elements of gradients of activations
  bool weight_gradient = true;   // also in products of weight gradients
  // With one scale for each matrix, in blocks whose projection has quantized products:
  bool attention = false;  // also in the products of attention (ops/attention.h)
  bool attended = false;   // with these: attention's output leaves it as an operand

  bool operator==(const Quantization&) const = default;
  /// Rows of a weight that share a scale of a block.
  int64_t rows_of_weight() const {
    return scaling == Scaling::blocks ? 128 : scaling == Scaling::nvfp4 ? 16 : 1;
  }
  bool any() const { return scaling != Scaling::none; }
  /// Whether operands have a scale of the whole matrix (NVFP4: beside those of blocks).
  bool scales_matrices() const { return scaling == Scaling::tensor || scaling == Scaling::nvfp4; }
};

}  // namespace viaduct
