#pragma once
// NVFP4 codes (tensor/nvfp4.h) of a weight [R, C] of which a rank has a part: a run of its
// row-major elements, which may begin and end inside the squares of 16 × 16 elements that share a
// scale. The magnitudes of squares are made of each part and joined by a maximum over the ranks;
// they give the scales of all squares, with which each part is encoded. The results have the bits
// of `convert_operand` of the whole matrix.
//
// A part [n], contiguous, of f32, bf16 or f16, has the elements [begin, begin + n) of a matrix with
// `columns` columns.

#include "ops/dispatch.h"
#include "tensor/tensor.h"

namespace viaduct {

/// magnitudes f32 [⌈R / 16⌉, ⌈C / 16⌉] = max(magnitudes, the largest magnitude of the part's
/// elements in each square); infinity if one of them is not finite, so that a maximum over ranks
/// keeps it.
struct SquareMagnitudesArgs {
  Tensor part;
  int64_t begin = 0, columns = 0;
  Tensor magnitudes;
};
void square_magnitudes(OpContext& context, const SquareMagnitudesArgs& args);

/// scales e4m3 [⌈R / 16⌉, ⌈C / 16⌉] and matrix_scale f32 [1] of a matrix whose squares have these
/// magnitudes, f32 of the same shape, and whose largest magnitude, with that of its parts on other
/// tensor ranks, is `amax` f32 [1].
struct SquareScalesArgs {
  Tensor magnitudes, amax, scales, matrix_scale;
};
void square_scales(OpContext& context, const SquareScalesArgs& args);

/// codes e2m1x2 [n / 2] = the part's elements over the scales of their squares, rounded to nearest
/// even. `begin`, `columns` and n are even: two elements share a byte.
struct SquareCodesArgs {
  Tensor part;
  int64_t begin = 0, columns = 0;
  Tensor scales, matrix_scale;  // of the whole matrix, as of `square_scales`
  Tensor codes;
};
void square_codes(OpContext& context, const SquareCodesArgs& args);

}  // namespace viaduct
