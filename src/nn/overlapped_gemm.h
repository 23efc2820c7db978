#pragma once
// A GEMM together with what it makes the tensor ranks exchange of the stream, in chunks so that the
// one hides the other: one component for all rows of the table (nn/gemm_overlap.h). The numbers are
// bitwise those of no overlap: an element's order of summation depends on the contracted size
// alone, and reductions go in rank order. Where the stream is not cut nothing is chunked.
// (Ring and pipeline: Wang et al. 2023, "Overlap communication with dependent computation via
// decomposition".)

#include <optional>

#include "nn/context.h"
#include "nn/gemm_overlap.h"
#include "ops/gemm.h"

namespace viaduct {

/// The product with a weight [out, in] that a layer asks for: x · Wᵀ + bias or dy · W, and what is
/// done with it at once. Tensors of the epilogue have all rows of the product; a gradient of
/// `raised` takes its place.
struct StreamProduct {
  GemmForm form = GemmForm::forward;  // or data_gradient
  Operand weight;                     // acquired with `weight_run`
  Tensor bias;                        // may be undefined
  GemmEpilogue epilogue;              // a residual only where no ranks' products are summed
  /// Of the product; none: that of activations, as of all products that ranks sum.
  std::optional<DType> format = {};
  int64_t columns() const { return weight.dim(form == GemmForm::forward ? 0 : 1); }
};

/// The runs of columns in which a product of `columns` reads its weight, for `acquire`: chunks of
/// the pipeline of `row`, or the halves of a gated activation; 0: all columns at once.
int64_t weight_run(const RankContext& context, const GemmOverlap& row, const GemmEpilogue& epilogue,
                   int64_t columns);

/// Product of all tokens' rows [T, columns] of a stream whose rows here are `rows`; `row` is none
/// or ring_exchange. `gathered` (if not null) receives all tokens' rows.
Tensor gather_and_multiply(RankContext& context, const GemmOverlap& row,
                           const StreamProduct& product, const Tensor& rows, MemoryTag tag,
                           Tensor* gathered = nullptr);

/// The stream's rows of the sum over the tensor ranks of the product with x [T, …]; `row` is none,
/// pipeline or ring_exchange.
Tensor multiply_and_reduce(RankContext& context, const GemmOverlap& row,
                           const StreamProduct& product, const Tensor& x, MemoryTag tag);

/// The product alone.
Tensor multiply(RankContext& context, const StreamProduct& product, const Tensor& x, MemoryTag tag);

}  // namespace viaduct
