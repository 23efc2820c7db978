#pragma once
// A GEMM together with the exchange of its stream side between the tensor ranks, in chunks so that
// each hides the other: one component for all rows of the table (nn/gemm_overlap.h). Results are
// bitwise the same as without overlap: an element's order of summation depends on the contracted
// size alone, and reductions are in rank order. If the stream is not cut, nothing is chunked. (Ring
// and pipeline: Wang et al. 2023, "Overlap communication with dependent computation via
// decomposition".)

#include <optional>
#include <vector>

#include "nn/context.h"
#include "nn/gemm_overlap.h"
#include "ops/gemm.h"

namespace viaduct {

/// A layer's product with a weight [out, in]: x · Wᵀ + bias or dy · W, with its epilogue. Tensors
/// of the epilogue have all rows of the product; a gradient of `raised` overwrites it.
struct StreamProduct {
  GemmForm form = GemmForm::forward;  // or data_gradient
  Operand weight;                     // acquired with `weight_run`
  Tensor bias;                        // may be undefined
  GemmEpilogue epilogue;              // a residual only if the product is not summed over ranks
  /// Format of the product; absent: the activation format, which sums over ranks always have.
  std::optional<DType> format = {};
  Quantization quantization = {};
  /// Of all ranks' rows or columns of x or dy (`amax_over_ranks`).
  Tensor amax = {};
  /// Of dy, all tokens' rows; undefined: to nearest even.
  StochasticRounding rounding = {};
  int spare_multiprocessors = 0;  // as in GemmArgs
  /// As in GemmArgs, with all rows of the product; not of one that is cut by columns.
  std::vector<GemmTerm> terms = {};
  TermReduction reduction = {};
  int64_t columns() const { return weight.dim(form == GemmForm::forward ? 0 : 1); }
};

/// The length of the column runs in which a product of `columns` reads its weight, for `acquire`:
/// chunks of the pipeline of `row`, or the halves of a gated activation; 0: all columns at once.
int64_t weight_run(const RankContext& context, const GemmOverlap& row, const GemmEpilogue& epilogue,
                   int64_t columns);

/// y [T, columns] = the product with all tokens' rows of a stream, of which this rank has `rows`;
/// `row` is none or ring_exchange. `gathered` (if not null) gets the rows of all tokens.
Tensor gather_and_multiply(RankContext& context, const GemmOverlap& row,
                           const StreamProduct& product, const Tensor& rows, MemoryTag tag,
                           Tensor* gathered = nullptr);

/// This rank's stream rows of the sum over the tensor ranks of the product with x [T, …]; `row` is
/// none, pipeline or ring_exchange.
Tensor multiply_and_reduce(RankContext& context, const GemmOverlap& row,
                           const StreamProduct& product, const Operand& x, MemoryTag tag);

/// The product without communication.
Tensor multiply(RankContext& context, const StreamProduct& product, const Operand& x,
                MemoryTag tag);
/// The same of one that is not used again: its terms are not copied.
Tensor multiply(RankContext& context, StreamProduct&& product, const Operand& x, MemoryTag tag);

}  // namespace viaduct
