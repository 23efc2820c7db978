#pragma once
// Weights of matrix products as tiles, the form in which a backend multiplies them: made once for
// many products, each of which would make it anew from the canonical weight. It takes as many bytes
// as the weight does (each dim rounded up to whole tiles), and so does the one of the other form:
// a product contracts one dim of the weight, and tiles run along it.

#include "ops/gemm.h"

namespace viaduct {

/// tiles = weight [N, K], for products of `form` (forward or data_gradient). BF16; the weight's
/// rows may be strided, tiles are contiguous and of `weight_tiles_shape`. Places beyond the weight
/// are zero.
struct PackWeightArgs {
  GemmForm form = GemmForm::forward;
  Tensor weight, tiles;
};

void pack_weight(OpContext& context, const PackWeightArgs& args);

/// Whether products of these ops read weights of `dtype` as tiles.
bool reads_weight_tiles(const OpTable& ops, DType dtype);

/// [runs of 16 of the product's columns, steps of 32 contracted, 512 = 16 × 32] of a weight [N, K].
Shape weight_tiles_shape(GemmForm form, const Shape& weight);

/// Of tiles, those of the product's columns [begin, begin + count); undefined where the first of
/// these is not the first of a run.
Tensor weight_tiles_columns(const Tensor& tiles, int64_t begin, int64_t count);

}  // namespace viaduct
