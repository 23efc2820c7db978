// Launches of elementwise ops, of biases and of random numbers.

#include <algorithm>
#include <cmath>

#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/random.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {
namespace {

/// Elementwise over tensors of one shape: one long row where all of them are contiguous.
void run(OpContext& context, std::string_view op, Elementwise kind, const Tensor& a,
         const Tensor& b, const Tensor& out, double factor = 0) {
  const auto contiguous = [](const Tensor& t) { return !t || t.is_contiguous(); };
  const bool flat = contiguous(a) && contiguous(b) && contiguous(out);
  // Losses of tokens and scalars of a step: few kinds, and no strides.
  const bool in_f64 =
      kind == Elementwise::add || kind == Elementwise::scale || kind == Elementwise::fill;
  if (out.dtype() == DType::f64 && flat && in_f64) {
    return elementwise_f64({kind, pointer_of<double>(a), pointer_of<double>(b), out.data<double>(),
                            factor, out.elements()},
                           stream_of(context));
  }
  const auto view = [&](const Tensor& t) { return flat ? one_row(op, t) : rows_of(op, t); };
  ElementwiseRows args{kind,
                       view(a),
                       view(b),
                       view(out),
                       flat ? 1 : row_count(out),
                       flat ? out.elements() : width_of(out)};
  args.factor = static_cast<float>(factor);
  elementwise(args, stream_of(context));
}

void launch_add(OpContext& context, const Choice&, const AddArgs& args, void*) {
  run(context, "add", Elementwise::add, args.a, args.b, args.out);
}

void launch_scale(OpContext& context, const Choice&, const ScaleArgs& args, void*) {
  run(context, "scale", Elementwise::scale, args.x, {}, args.out, args.factor);
}

void launch_fill(OpContext& context, const Choice&, const FillArgs& args, void*) {
  run(context, "fill", Elementwise::fill, {}, {}, args.out, args.value);
}

/// Rows of `out` with a row of `b` for each `rows_of_b` of them.
void run_with_rows(OpContext& context, std::string_view op, Elementwise kind, const Tensor& a,
                   const Tensor& b, const Tensor& out, int64_t rows_of_b) {
  ElementwiseRows args{kind,           rows_of(op, a), rows_of(op, b), rows_of(op, out),
                       row_count(out), width_of(out)};
  args.rows_of_b = std::max<int64_t>(1, rows_of_b);
  elementwise(args, stream_of(context));
}

void launch_multiply(OpContext& context, const Choice&, const MultiplyArgs& args, void*) {
  run_with_rows(context, "multiply", Elementwise::multiply, args.a, args.b, args.out,
                args.out.dim(1));
}

void launch_bias_add(OpContext& context, const Choice&, const BiasAddArgs& args, void*) {
  run_with_rows(context, "bias_add", Elementwise::add, args.x, args.bias, args.out,
                row_count(args.out));
}

bool has_float_rows(const Tensor& t) {
  const bool dense = t.rank() == 0 || t.dim(-1) <= 1 || t.stride(-1) == 1;
  return is_floating(t.dtype()) && t.dtype() != DType::f64 && dense && t.rank() <= 4;
}

void launch_copy(OpContext& context, const Choice&, const CopyArgs& args, void*) {
  const bool accumulate = args.mode == WriteMode::accumulate;
  if (has_float_rows(args.from) && has_float_rows(args.to)) {
    return run(context, "copy", accumulate ? Elementwise::accumulate : Elementwise::copy, args.from,
               {}, args.to);
  }
  StridedCopy copy{args.from.raw(), args.to.raw(), Format::f32, Format::f32};
  copy.accumulate = accumulate;
  copy.elements = args.to.elements();
  if (!accumulate && args.from.dtype() == args.to.dtype()) {
    copy.raw_bytes = static_cast<int>(dtype_bytes(args.to.dtype()));
  } else {
    copy.from_format = format_of("copy", args.from.dtype(), true);
    copy.to_format = format_of("copy", args.to.dtype(), true);
  }
  copy.dims = args.to.rank();
  for (int d = 0; d < copy.dims; ++d) {
    copy.sizes[d] = args.to.dim(d);
    copy.from_strides[d] = args.from.stride(d);
    copy.to_strides[d] = args.to.stride(d);
  }
  strided_copy(copy, stream_of(context));
}
static_assert(StridedCopy::kMostDims == Shape::kMaxRank);

void launch_sum_rows(OpContext& context, const Choice&, const SumRowsArgs& args, void*) {
  sum_rows(
      {rows_of("sum_rows", args.x), vector_of("sum_rows", args.out), args.x.dim(0), args.x.dim(1)},
      stream_of(context));
}

void launch_dropout(OpContext& context, const Choice&, const DropoutArgs& args, void*) {
  constexpr std::string_view op = "dropout";
  if (args.probability == 0) {
    const Elementwise kind = args.residual ? Elementwise::add : Elementwise::copy;
    return run(context, op, kind, args.x, args.residual, args.out);
  }
  // keep iff (w + ½) · 2^-23 ≥ p for the upper 23 bits w of a word; both sides are exact in FP64.
  const double threshold = std::ceil(args.probability * 0x1p23 - 0.5);
  dropout(
      {rows_of(op, args.x), rows_of(op, args.residual), rows_of(op, args.out), args.out.dim(0),
       args.out.dim(1), philox_key(args.key), args.token_index.data<int64_t>(), args.first_feature,
       static_cast<uint32_t>(threshold), static_cast<float>(1 / (1 - args.probability))},
      stream_of(context));
}

void launch_random_normal(OpContext& context, const Choice&, const RandomNormalArgs& args, void*) {
  const Tensor& out = args.out;
  random_normal({rows_of("random_normal", out, true), out.rank() == 2 ? out.dim(0) : 1, out.dim(-1),
                 philox_key(args.key), args.mean, args.standard_deviation, args.first_row,
                 args.first_column, args.row_elements, args.transposed},
                stream_of(context));
}

}  // namespace

void add_elementwise_launches(OpTable& table) {
  table.add.launch = launch_add;
  table.multiply.launch = launch_multiply;
  table.copy.launch = launch_copy;
  table.sum_rows.launch = launch_sum_rows;
  table.scale.launch = launch_scale;
  table.fill.launch = launch_fill;
  table.dropout.launch = launch_dropout;
  table.random_normal.launch = launch_random_normal;
  table.bias_add.launch = launch_bias_add;
}

}  // namespace viaduct::cuda
