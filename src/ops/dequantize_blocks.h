#pragma once
// Matrices in the quantized blocks of GGUF files (tensor/gguf_blocks.h), such as frozen weights
// that stay as a file has them. A row is a whole number of blocks.

#include "ops/dispatch.h"
#include "tensor/gguf_types.h"
#include "tensor/tensor.h"

namespace viaduct {

/// out [R, N], floating, contiguous = the values of blocks u8 [R, N / block · bytes of one],
/// contiguous. In FP32, equal to `decode_gguf_elements` in every bit, then rounded to out's format.
struct DequantizeBlocksArgs {
  Tensor blocks, out;
  GgufTensorType type = GgufTensorType::q8_0;
};
void dequantize_blocks(OpContext& context, const DequantizeBlocksArgs& args);

}  // namespace viaduct
