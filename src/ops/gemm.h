#pragma once
// Matrix products of a linear layer with weight W [N, K] (output features × input features), in its
// three forms:
//
//   forward          c [M, N] = a [M, K] · Wᵀ (+ bias [N])          a = X, b = W
//   data_gradient    c [M, K] = a [M, N] · W                        a = dY, b = W
//   weight_gradient  c [N, K] (= or +=) aᵀ · b, a = dY [M, N], b = X [M, K]
//
// a and b are operands (tensor/operand.h): tensors, or forms of matrices that the backend reads and
// `convert_operand` makes. They share one dtype of {f64, f32, bf16, f16}, which is that of the
// matrices; c has that dtype or f32; sums run in FP32 (FP64 for f64). Rows of tensors may be
// strided (the innermost dim is dense); rank 2. `mode` = accumulate is allowed for every form; with
// bias or an epilogue only `assign`. On the cpu the order of summation of an element depends on the
// contracted size alone, so results are bitwise equal for any number of threads and any split of
// the rows. On a GPU the order is that of the library's kernel for all sizes, strides and formats
// of the product: the same product has the same bits each time, a part of it may have others.

#include <vector>

#include "ops/activation.h"
#include "ops/convert_operand.h"
#include "ops/dispatch.h"
#include "tensor/quantization.h"

namespace viaduct {

enum class GemmForm { forward, data_gradient, weight_gradient };

/// Work on a product while it is in cache, instead of a separate op. At most one of the tensors is
/// defined; they have the dtype of c, and the bits are those of two ops, because the product is
/// rounded to c's dtype first.
struct GemmEpilogue {
  /// forward: c = residual + product, as `add`. Shape of c; not c itself.
  Tensor residual;
  /// forward: c is the product, and activated = f(c), as `activation_forward` with in = c.
  Tensor activated;
  /// data_gradient: the product is that of f(raised), and c [M, K] (gated: [M, 2K]) the gradient of
  /// `raised`, as `activation_backward` with in = raised. c may be `raised` itself.
  Tensor raised;
  ActivationKind activation = ActivationKind::silu;  // f
  bool gated = false;
  ProducedForms forms = {};  // of `activated`

  bool any() const { return residual || activated || raised; }
};

/// A product of the same form that is added to some columns of that of a and b, before c is
/// rounded: a low-rank term of the weight. a [M, r]; b [N', r] of a forward, [r, N'] of a
/// data_gradient; of the dtype of the product's operands.
struct GemmTerm {
  Operand a, b;
  int64_t first_column = 0;  // of the product: N' columns from here
};

/// What the terms of a forward with few rows read, made in the same op instead of by two before it:
/// to [M, R] = factor · (a · downᵀ), rounded before it is multiplied by the factor, as a product
/// and `scale` would. Each term's a is some of its columns.
struct TermReduction {
  Operand down;  // [R, K], of the dtype of a
  Tensor to;     // of the dtype of a and c
  double factor = 1;
  bool any() const { return down.defined(); }
};

/// Maximum of r, each rounded up to whole steps of kernels, over all terms of a product together:
/// their a stays in cache beside that of the product.
inline constexpr int64_t kMostTermDepth = 1024;
inline constexpr int64_t padded_term_depth(int64_t r) {
  return (r + 31) / 32 * 32;
}

struct GemmArgs {
  GemmForm form = GemmForm::forward;
  Operand a, b;
  Tensor c;
  Tensor bias;  // optional, forward only; dtype of a or f32
  WriteMode mode = WriteMode::assign;
  GemmEpilogue epilogue;
  /// How the operands are quantized; determines the forms that the backend reads.
  Quantization quantization = {};
  /// Multiprocessors of a GPU that the product leaves to communication beside it. On the cpu it
  /// means nothing.
  int spare_multiprocessors = 0;
  /// c = product + terms (+ bias), rounded once; an epilogue has their sum for its product. Only of
  /// matrices that are not quantized, by ops that have them (`OpTable::product_terms`), and not of
  /// a weight_gradient.
  std::vector<GemmTerm> terms = {};
  /// Only if `makes_reduction`.
  TermReduction reduction = {};
};

/// ShapeError, with the form that the backend reads, for an operand in another form.
void gemm(OpContext& context, const GemmArgs& args);

/// Description of a product for the backend before its operands are made.
struct GemmRequest {
  GemmForm form = GemmForm::forward;
  DType dtype = DType::f32;     // of the matrices
  int64_t m = 0, n = 0, k = 0;  // sizes in the formulas above; m = 0: not known yet
  /// Columns per slice, for products that read b's columns in runs: slices of one operand, or the
  /// halves of a gated activation. A form must have slices that begin at each multiple. 0: all
  /// columns at once.
  int64_t run = 0;
  /// b is packed once and read by many products; else each product converts it.
  bool packed = false;
  Quantization quantization = {};
};

/// The forms in which products read their operands; plain if they read tensors.
struct GemmForms {
  OperandForm a, b;
  bool operator==(const GemmForms&) const = default;
};

/// The backend's forms for a request.
GemmForms gemm_operand_forms(const OpTable& ops, const GemmRequest& request);

/// The request for `args`, not packed.
GemmRequest gemm_request(const GemmArgs& args);

/// The request for b of a term of `args`, not packed: its columns are read in runs that begin with
/// columns of the product.
GemmRequest term_request(const GemmArgs& args, const GemmTerm& term);
/// The run of `term_request` for a term that begins at a column; `half`: columns of a half of a
/// gated product, else 0.
int64_t term_run(int64_t first_column, int64_t half);

/// Whether products of these ops read a weight of `dtype` in another form if it is packed.
bool reads_packed_weights(const OpTable& ops, DType dtype);

/// Whether products of `rows` rows make what their terms read (`GemmArgs::reduction`).
bool makes_reduction(const OpTable& ops, DType dtype, int64_t rows);

/// out [N] f32 (f64 for f64) (= or +=) sum over the rows of x [M, N]: the gradient of a bias. The
/// order of summation over rows is fixed.
struct ColumnSumArgs {
  Tensor x, out;
  WriteMode mode = WriteMode::accumulate;
};

void column_sum(OpContext& context, const ColumnSumArgs& args);

}  // namespace viaduct
