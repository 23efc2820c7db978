#pragma once
// Parts of a sum over tensor ranks that travel to their owner as FP8 (Transformer Engine's FP8
// buffers of tensor-parallel overlap): E4M3 codes with an FP32 scale for 64 elements, in the format
// that optimizer state has (tensor/state_formats.h). The owner widens them and sums in FP32, in
// rank order, its own part included: the sum depends on no rank's place.

#include <vector>

#include "nn/context.h"

namespace viaduct {

struct Fp8Rows {
  Tensor codes, scales;  // e4m3 [elements], f32 [elements / 64]
};

/// Rows f32, contiguous, as codes. ShapeError unless their elements are a multiple of 64.
Fp8Rows to_fp8_rows(RankContext& context, const Tensor& rows);
/// Memory for the codes of this many elements.
Fp8Rows allocate_fp8_rows(RankContext& context, int64_t elements);
/// The elements [begin, begin + count), both multiples of 64.
Fp8Rows part_of(const Fp8Rows& rows, int64_t begin, int64_t count);
/// f32, of `shape`: the sum of the parts, in their order.
Tensor sum_of_fp8_rows(RankContext& context, const std::vector<Fp8Rows>& parts, const Shape& shape);

}  // namespace viaduct
