#pragma once
// Matrix products of several linear layers, each with rows of its own: the experts of a rank. The
// forms are those of `gemm`; E weights W_e [N, K] are stored one after the other in one tensor [E ·
// N, K], and the rows [offsets[e], offsets[e + 1]) belong to W_e:
//
//   forward          c [R, N] = a [R, K] · W_eᵀ                    b [E · N, K] = W
//   data_gradient    c [R, K] = a [R, N] · W_e                     b [E · N, K] = W
//   weight_gradient  c [E · N, K] (= or +=) a_eᵀ · b_e, a = dY [R, N], b = X [R, K]
//
// dtypes as in `gemm`, without bias and epilogues; nothing is padded or copied for it. offsets[0]
// is 0; rows from offsets[E] ≤ R on belong to no expert and are neither read nor written. An expert
// without rows has a gradient of zero. On the cpu each product has the bits of `gemm` over the
// expert's rows, and offsets out of order are refused; a GPU's kernels have an order of summation
// of their own, and read the offsets on the device.
//
// With a `quantization` that quantizes the product, its operands are made here, from tensors: those
// of each expert are the operands that `convert_operand` makes of the expert's own rows [.., K] and
// its own W_e, so that no group of elements that share a scale has elements of two experts, and a
// scale of a whole matrix is that of one expert's. A rotated operand (tensor/hadamard.h) whose rows
// are not a multiple of 16 is completed by rows of zeros, which the product does not include. They
// are in the op's workspace. Weights that many products read may be passed as a stack of operands
// made earlier.

#include "ops/gemm.h"

namespace viaduct {

struct GroupedGemmArgs {
  GemmForm form = GemmForm::forward;
  Tensor a;        // dense rows
  Operand b;       // the same, or a stack of the experts' weights; contiguous if they are weights
  Tensor c;        // as b
  Tensor offsets;  // i32 [E + 1]
  WriteMode mode = WriteMode::assign;
  Quantization quantization = {};
  /// f32 [E], where the operand's form has a scale of the whole matrix and is made here: the
  /// largest magnitude of each expert's operand for which its scale is made (of the rotated one, if
  /// it is).
  Tensor a_amax = {}, b_amax = {};
  /// Of a, where its elements are e2m1. `token_index` i64 [1] is the token of the first row of each
  /// expert, whose rows count on from there; features are those of the rows of all weights.
  StochasticRounding rounding = {};
};

void grouped_gemm(OpContext& context, const GroupedGemmArgs& args);

/// [E · N, K].
const Shape& shape_of_weights(const GroupedGemmArgs& args);

/// The forms of one expert's operands; plain where nothing is quantized.
GemmForms expert_forms(const GroupedGemmArgs& args);

/// How one expert's rows of a are rounded, as for `convert_operand`; `token_index` is undefined
/// if nothing is random, else still that of the first row.
StochasticRounding rounding_of_expert(const GroupedGemmArgs& args, int64_t index);

/// The same of matrix `index` of several with `columns` columns each.
StochasticRounding rounding_of_matrix(const StochasticRounding& rounding, int64_t columns,
                                      int64_t index);

/// The product of only expert `index`, with rows [begin, end): views of the arguments. For
/// backends.
GemmArgs product_of_expert(const GroupedGemmArgs& args, int64_t index, int64_t begin, int64_t end);

}  // namespace viaduct
