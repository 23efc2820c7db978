#pragma once
// Matrix products of several linear layers, each with rows of its own: the experts of a rank. The
// forms are those of `gemm`; E weights W_e [N, K] lie one after the other in one tensor [E · N, K],
// and the rows [offsets[e], offsets[e + 1]) belong to W_e:
//
//   forward          c [R, N] = a [R, K] · W_eᵀ                    b [E · N, K] = W
//   data_gradient    c [R, K] = a [R, N] · W_e                     b [E · N, K] = W
//   weight_gradient  c [E · N, K] (= or +=) a_eᵀ · b_e, a = dY [R, N], b = X [R, K]
//
// dtypes as in `gemm`, without bias and epilogues; nothing is padded or copied for it. offsets[0]
// is 0; rows from offsets[E] ≤ R on belong to nobody and are neither read nor written. An expert
// without rows has a gradient of zero. On the cpu each product has the bits of `gemm` over the
// expert's rows, and offsets out of order are refused; a GPU's kernels have an order of summation
// of their own, and read the offsets where they are.

#include "ops/gemm.h"

namespace viaduct {

struct GroupedGemmArgs {
  GemmForm form = GemmForm::forward;
  Tensor a, b, c;  // dense rows; weights contiguous
  Tensor offsets;  // i32 [E + 1]
  WriteMode mode = WriteMode::assign;
};

void grouped_gemm(OpContext& context, const GroupedGemmArgs& args);

/// The product of only expert `index`, with rows [begin, end): views of the arguments. For
/// backends.
GemmArgs product_of_expert(const GroupedGemmArgs& args, int64_t index, int64_t begin, int64_t end);

}  // namespace viaduct
