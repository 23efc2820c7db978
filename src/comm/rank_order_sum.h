#pragma once
// The reduction that all computing communicators share: element by element, in rank order, so that
// a result does not depend on how ranks are started, how data moves or how it is cut into pieces.

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace viaduct {

/// out[i] = sources[0][i] ⊕ sources[1][i] ⊕ … for `elements` elements of `dtype`. Floating types
/// are summed in FP32 (f64 in FP64), divided by the number of sources for `average`, and rounded
/// once; i64 in i64, its average towards zero. The maximum of anything and NaN is NaN. `out` may be
/// one of the sources; otherwise they do not overlap. CommError for other dtypes.
void reduce_in_rank_order(DType dtype, ReduceOp op, std::span<const std::byte* const> sources,
                          std::byte* out, int64_t elements);

/// The same result for every address of `outs`, each of which may be one of the sources.
void reduce_in_rank_order(DType dtype, ReduceOp op, std::span<const std::byte* const> sources,
                          std::span<std::byte* const> outs, int64_t elements);

// The same result computed rank by rank: `begin_partial_sum` takes rank 0's values,
// `add_to_partial_sum`
// those of each further rank in order, and `end_partial_sum` rounds. `sum` holds elements of
// `partial_sum_dtype(dtype)`.

/// f32; f64 for f64 and i64 for i64.
DType partial_sum_dtype(DType dtype);
void begin_partial_sum(DType dtype, const std::byte* values, std::byte* sum, int64_t elements);
void add_to_partial_sum(DType dtype, ReduceOp op, const std::byte* values, std::byte* sum,
                        int64_t elements);
/// `out` does not overlap `sum`.
void end_partial_sum(DType dtype, ReduceOp op, int ranks, const std::byte* sum, std::byte* out,
                     int64_t elements);

}  // namespace viaduct
