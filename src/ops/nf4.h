#pragma once
// Matrices in NF4 with double quantization (tensor/nf4.h). The elements, row by row, are blocks of
// 64 (the last may be shorter); a block has an absmax, its largest magnitude, and a code of 4 bits
// for each element, the first of two in the upper half of a byte. The absmax of the whole matrix
// less their mean, the offset, are stored as codes of 8 bits with an FP32 scale for each 256 of
// them. Matrices are quantized piece by piece, and expanded as parts that tensor ranks hold.
// Definition: bitsandbytes; tests/data/golden/nf4.safetensors has its tensors.

#include "ops/dispatch.h"
#include "tensor/tensor.h"

namespace viaduct {

/// codes u8 [⌈n / 2⌉] and absmax f32 [⌈n / 64⌉] of values [n], contiguous, f32, bf16, f16 or f64
/// (which is rounded to f32 first). A block of zeros has code 7, which is zero.
struct QuantizeNf4Args {
  Tensor values, codes, absmax;
};
void quantize_nf4(OpContext& context, const QuantizeNf4Args& args);

/// codes u8 [b] and scales f32 [⌈b / 256⌉] of absmax f32 [b] of a whole matrix, less offset f32
/// [1]: their mean, which is written here unless `offset_given`.
struct QuantizeAbsmaxArgs {
  Tensor absmax, offset, codes, scales;
  bool offset_given = false;
};
void quantize_absmax(OpContext& context, const QuantizeAbsmaxArgs& args);

/// Which blocks of a whole matrix a part of it has: runs of `run` blocks, a `stride` apart, from
/// block `first` on. A part of all columns is one run, others have a run for each row.
struct Nf4Blocks {
  int64_t first = 0, run = 1, stride = 1;
};

/// out [n], floating, contiguous = the elements of a part: codes u8 or e2m1x2 [⌈n / 2⌉], and the
/// codes of its absmax, u8 [⌈n / 64⌉]; scales f32 and offset f32 [1] are those of the whole matrix.
/// Rounded to FP32, then to out's format.
struct DequantizeNf4Args {
  Tensor codes, absmax_codes, scales, offset, out;
  Nf4Blocks blocks = {};
};
void dequantize_nf4(OpContext& context, const DequantizeNf4Args& args);

}  // namespace viaduct
