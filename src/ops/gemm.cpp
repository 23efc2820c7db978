#include "ops/gemm.h"

#include <numeric>

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_epilogue(const OpTable& ops, const GemmArgs& args) {
  constexpr std::string_view kOp = "gemm epilogue";
  const GemmEpilogue& epilogue = args.epilogue;
  const auto check = [&](std::string_view name, const Tensor& tensor, const Shape& shape) {
    check_shape(kOp, name, tensor, shape);
    check_dtype(kOp, name, tensor, {args.c.dtype()});
    check_dense_rows(kOp, name, tensor);
  };
  const GemmForm form = epilogue.raised ? GemmForm::data_gradient : GemmForm::forward;
  VIADUCT_CHECK(ShapeError, args.form == form && args.mode == WriteMode::assign,
                "gemm: a residual and an activation need the forward form, the gradient of an "
                "activation needs data_gradient, and all of them need assignment");
  VIADUCT_CHECK(
      ShapeError,
      epilogue.residual.defined() + epilogue.activated.defined() + epilogue.raised.defined() == 1,
      "gemm: expected one epilogue, got residual {}, activated {}, raised {}",
      describe(epilogue.residual), describe(epilogue.activated), describe(epilogue.raised));
  if (epilogue.residual) {
    check("residual", epilogue.residual, args.c.shape());
    VIADUCT_CHECK(ShapeError, args.c.raw() == nullptr || args.c.raw() != epilogue.residual.raw(),
                  "gemm epilogue: residual is c itself, which the product overwrites");
  }
  if (epilogue.raised) check("raised", epilogue.raised, args.c.shape());
  VIADUCT_CHECK(ShapeError, epilogue.activated || !epilogue.forms.any(),
                "gemm epilogue: other forms are made of an activation, and there is none");
  if (!epilogue.activated) return;
  const int64_t columns = args.c.dim(1);
  VIADUCT_CHECK(ShapeError, !epilogue.gated || columns % 2 == 0,
                "gemm epilogue: expected gate | up of equal width in c, got {}", describe(args.c));
  check("activated", epilogue.activated, {args.c.dim(0), epilogue.gated ? columns / 2 : columns});
  check_produced_forms("gemm epilogue", ops, epilogue.forms, epilogue.activated, true);
}

std::string_view form_name(GemmForm form) {
  switch (form) {
    case GemmForm::forward:
      return "gemm forward";
    case GemmForm::data_gradient:
      return "gemm data_gradient";
    case GemmForm::weight_gradient:
      break;
  }
  return "gemm weight_gradient";
}

/// Checks dtype and rank; dense rows of a tensor, contiguous memory of other forms.
void check_operand(std::string_view name, const Operand& operand) {
  constexpr std::string_view kOp = "gemm";
  VIADUCT_CHECK(ShapeError, operand.defined() && operand.shape().rank() == 2,
                "{}: expected {} of rank 2, got {}", kOp, name, describe(operand));
  VIADUCT_CHECK(ShapeError, is_floating(operand.dtype()), "{}: expected a floating tensor, got {}",
                kOp, describe(operand));
  if (operand.form().plain()) return check_dense_rows(kOp, name, operand.tensor());
  if (operand.form().layout == kRowMajor) {
    check_dense_rows(kOp, name, operand.values());
  } else {
    check_contiguous(kOp, name, operand.values());
  }
}

/// Whether the backend accepts this form for b, packed or not. A product that reads all columns at
/// once also accepts an operand that was made for runs, of which this b is one.
bool reads_b(const OpTable& ops, GemmRequest request, const OperandForm& form) {
  const int64_t columns = request.form == GemmForm::forward ? request.n : request.k;
  for (const int64_t run : {request.run, request.run > 0 ? request.run : columns}) {
    for (const bool packed : {false, true}) {
      request.run = run, request.packed = packed;
      if (form == gemm_operand_forms(ops, request).b) return true;
    }
  }
  return false;
}

/// Checks sizes, dtypes and forms of the terms.
void check_terms(const OpTable& ops, const GemmArgs& args) {
  constexpr std::string_view kOp = "gemm term";
  VIADUCT_CHECK(ShapeError, ops.product_terms, "gemm: {} has no products with terms",
                ops.traits.name);
  VIADUCT_CHECK(ShapeError, args.form != GemmForm::weight_gradient && !args.quantization.any(),
                "gemm: terms are added to a forward or data_gradient of matrices that are not "
                "quantized");
  const bool forward = args.form == GemmForm::forward;
  const int64_t rows = args.a.dim(0), columns = args.b.dim(forward ? 0 : 1);
  int64_t depth = 0;
  for (const GemmTerm& term : args.terms) {
    check_operand("a of a term", term.a);
    check_operand("b of a term", term.b);
    check_dtype(kOp, "a", term.a.tensor(), {args.a.dtype()});
    VIADUCT_CHECK(ShapeError, term.b.dtype() == args.a.dtype(),
                  "{}: expected b of dtype {}, got {}", kOp, dtype_name(args.a.dtype()),
                  describe(term.b));
    const int64_t rank = term.a.dim(1), width = term.b.dim(forward ? 0 : 1);
    check_shape(kOp, "a", term.a.tensor(), {rows, rank});
    VIADUCT_CHECK(ShapeError, term.b.dim(forward ? 1 : 0) == rank,
                  "{}: expected b with {} contracted elements, as a has, got {}", kOp, rank,
                  describe(term.b));
    VIADUCT_CHECK(ShapeError, term.first_column >= 0 && term.first_column + width <= columns,
                  "{}: columns [{}, {}) of a product of {}", kOp, term.first_column,
                  term.first_column + width, columns);
    if (!reads_b(ops, term_request(args, term), term.b.form()))
      fail<ShapeError>("{}: {} does not read b as {} from column {} on", kOp, ops.traits.name,
                       describe(term.b), term.first_column);
    depth += padded_term_depth(rank);
  }
  VIADUCT_CHECK(ShapeError, depth <= kMostTermDepth,
                "{}: expected at most {} contracted elements of all terms, got {}", kOp,
                kMostTermDepth, depth);
}

/// Checks what the terms read, where the product makes it.
void check_reduction(const OpTable& ops, const GemmArgs& args) {
  constexpr std::string_view kOp = "gemm reduction";
  const TermReduction& reduction = args.reduction;
  const int64_t rows = args.a.dim(0);
  VIADUCT_CHECK(ShapeError,
                args.form == GemmForm::forward && !args.terms.empty() &&
                    makes_reduction(ops, args.a.dtype(), rows),
                "{}: needs a forward with terms and at most {} rows in {}, got {} rows of {}", kOp,
                ops.reduced_rows, ops.traits.name, rows, dtype_name(args.a.dtype()));
  check_operand("down of a reduction", reduction.down);
  VIADUCT_CHECK(ShapeError, reduction.down.dtype() == args.a.dtype(),
                "{}: expected down of dtype {}, got {}", kOp, dtype_name(args.a.dtype()),
                describe(reduction.down));
  const int64_t width = reduction.down.dim(0);
  VIADUCT_CHECK(ShapeError, reduction.down.dim(1) == args.a.dim(1),
                "{}: expected down with {} contracted elements, got {}", kOp, args.a.dim(1),
                describe(reduction.down));
  check_shape(kOp, "to", reduction.to, {rows, width});
  check_dtype(kOp, "to", reduction.to, {args.a.dtype()});
  check_dtype(kOp, "c", args.c, {args.a.dtype()});
  check_dense_rows(kOp, "to", reduction.to);
  GemmRequest request = gemm_request(args);
  request.n = width, request.run = 0;
  if (!reads_b(ops, request, reduction.down.form()))
    fail<ShapeError>("{}: {} does not read down as {}", kOp, ops.traits.name,
                     describe(reduction.down));
}

/// Checks that the operands have forms that the backend reads.
void check_forms(const OpTable& ops, const GemmArgs& args) {
  const GemmRequest request = gemm_request(args);
  const GemmForms wanted = gemm_operand_forms(ops, request);
  const auto refuse = [&](std::string_view name, const Operand& operand, const OperandForm& form) {
    fail<ShapeError>("{}: {} reads {} in the form {}, got {}", form_name(args.form),
                     ops.traits.name, name, describe(form), describe(operand));
  };
  if (args.a.form() != wanted.a) refuse("a", args.a, wanted.a);
  if (args.b.form() == wanted.b) return;
  if (!reads_b(ops, request, args.b.form())) refuse("b", args.b, wanted.b);
}

}  // namespace

GemmForms gemm_operand_forms(const OpTable& ops, const GemmRequest& request) {
  return ops.gemm_forms != nullptr ? ops.gemm_forms(request, ops.traits) : GemmForms{};
}

GemmRequest gemm_request(const GemmArgs& args) {
  const bool forward = args.form == GemmForm::forward;
  GemmRequest request{args.form, args.a.dtype()};
  request.m = args.a.dim(0);
  request.n = forward ? args.b.dim(0) : args.a.dim(1);
  request.k = args.b.dim(1);
  if (args.epilogue.activated && args.epilogue.gated) request.run = request.n / 2;
  request.quantization = args.quantization;
  return request;
}

int64_t term_run(int64_t first_column, int64_t half) {
  return std::gcd(first_column, half);
}

GemmRequest term_request(const GemmArgs& args, const GemmTerm& term) {
  const bool forward = args.form == GemmForm::forward;
  GemmRequest request{args.form, args.a.dtype()};
  request.m = term.a.dim(0);
  request.n = forward ? term.b.dim(0) : term.a.dim(1);
  request.k = term.b.dim(1);
  request.run = term_run(term.first_column, gemm_request(args).run);
  return request;
}

bool reads_packed_weights(const OpTable& ops, DType dtype) {
  GemmRequest request{GemmForm::forward, dtype};
  const GemmForms unpacked = gemm_operand_forms(ops, request);
  request.packed = true;
  return gemm_operand_forms(ops, request) != unpacked;
}

bool makes_reduction(const OpTable& ops, DType dtype, int64_t rows) {
  return ops.product_terms && dtype != DType::f64 && rows <= ops.reduced_rows;
}

void gemm(OpContext& context, const GemmArgs& args) {
  constexpr std::string_view kOp = "gemm";
  check_operand("a", args.a);
  check_operand("b", args.b);
  VIADUCT_CHECK(ShapeError, args.a.dtype() == args.b.dtype(),
                "{}: expected one dtype, got {} and {}", kOp, describe(args.a), describe(args.b));
  check_rank(kOp, "c", args.c, 2);
  check_dense_rows(kOp, "c", args.c);
  if (args.a.dtype() == DType::f64) {
    check_dtype(kOp, "c", args.c, {DType::f64});
  } else {
    check_dtype(kOp, "c", args.c, {args.a.dtype(), DType::f32});
  }
  const int64_t a0 = args.a.dim(0), a1 = args.a.dim(1), b0 = args.b.dim(0), b1 = args.b.dim(1);
  const auto check_sizes = [&](const Shape& b, const Shape& c) {
    VIADUCT_CHECK(ShapeError, args.b.shape() == b, "{}: expected b of shape {}, got {}",
                  form_name(args.form), to_string(b), describe(args.b));
    check_shape(form_name(args.form), "c", args.c, c);
  };
  switch (args.form) {
    case GemmForm::forward:
      check_sizes({b0, a1}, {a0, b0});
      break;
    case GemmForm::data_gradient:
      check_sizes({a1, b1}, {a0, args.epilogue.raised && args.epilogue.gated ? 2 * b1 : b1});
      break;
    case GemmForm::weight_gradient:
      check_sizes({a0, b1}, {a1, b1});
      break;
  }
  if (args.bias) {
    VIADUCT_CHECK(ShapeError, args.form == GemmForm::forward && args.mode == WriteMode::assign,
                  "gemm: a bias needs the forward form and assignment");
    check_shape(kOp, "bias", args.bias, {b0});
    check_dtype(kOp, "bias", args.bias, {args.a.dtype(), accumulator_dtype(args.a.dtype())});
    check_dense_rows(kOp, "bias", args.bias);
  }
  if (args.epilogue.any()) check_epilogue(context.ops, args);
  check_forms(context.ops, args);
  if (!args.terms.empty()) check_terms(context.ops, args);
  if (args.reduction.any()) check_reduction(context.ops, args);
  dispatch(context, kOp, context.ops.gemm, args);
}

void column_sum(OpContext& context, const ColumnSumArgs& args) {
  constexpr std::string_view kOp = "column_sum";
  check_rank(kOp, "x", args.x, 2);
  check_floating(kOp, "x", args.x);
  check_dense_rows(kOp, "x", args.x);
  check_shape(kOp, "out", args.out, {args.x.dim(1)});
  check_dtype(kOp, "out", args.out, {accumulator_dtype(args.x.dtype())});
  check_dense_rows(kOp, "out", args.out);
  dispatch(context, kOp, context.ops.column_sum, args);
}

Cost cost_of(const GemmArgs& args) {
  const int64_t depth = args.form == GemmForm::weight_gradient ? args.a.dim(0) : args.a.dim(1);
  // In the gradient of a gated activation c has more columns than the product.
  const int64_t columns = args.epilogue.raised ? args.b.dim(1) : args.c.dim(1);
  Cost cost;
  add_vector_flops(cost, args.a.dtype(),
                   2.0 * static_cast<double>(args.c.dim(0) * columns) * static_cast<double>(depth));
  cost.bytes_read = args.a.bytes() + args.b.bytes() + bytes_of(args.bias) +
                    (args.mode == WriteMode::accumulate ? args.c.bytes() : 0);
  cost.bytes_written = args.c.bytes();
  for (const GemmTerm& term : args.terms) {
    const int64_t width = term.b.dim(args.form == GemmForm::forward ? 0 : 1);
    add_vector_flops(
        cost, args.a.dtype(),
        2.0 * static_cast<double>(term.a.shape().elements()) * static_cast<double>(width));
    cost.bytes_read += term.a.bytes() + term.b.bytes();
  }
  if (const TermReduction& reduction = args.reduction; reduction.any()) {
    add_vector_flops(
        cost, args.a.dtype(),
        2.0 * static_cast<double>(reduction.to.shape().elements()) * static_cast<double>(depth));
    cost.bytes_read += reduction.down.bytes();
    cost.bytes_written += reduction.to.bytes();
  }
  return cost;
}

Cost epilogue_cost(const GemmArgs& args) {
  const GemmEpilogue& epilogue = args.epilogue;
  double flops = 0;
  if (epilogue.residual) flops = count(args.c);
  if (epilogue.activated)
    flops =
        count(epilogue.activated) * activation_forward_flops(epilogue.activation, epilogue.gated);
  if (epilogue.raised) {
    flops = static_cast<double>(args.a.dim(0) * args.b.dim(1)) *
            activation_backward_flops(epilogue.activation, epilogue.gated);
  }
  Cost cost = make_cost(args.c.dtype(), flops, {&epilogue.residual, &epilogue.raised},
                        {&epilogue.activated});
  cost += cost_of(epilogue.forms, epilogue.activated);
  return cost;
}

Cost cost_of(const ColumnSumArgs& args) {
  Cost cost = make_cost(args.x.dtype(), count(args.x), {&args.x}, {&args.out});
  if (args.mode == WriteMode::accumulate) cost.bytes_read += args.out.bytes();
  return cost;
}

}  // namespace viaduct
