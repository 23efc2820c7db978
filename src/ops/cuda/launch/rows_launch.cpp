// Launches of row-wise ops: norms, activations, rotary embedding, cross entropy, and sums
// over rows.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/cross_entropy.h"
#include "ops/cuda/kernels/norm.h"
#include "ops/cuda/kernels/rotary.h"
#include "ops/cuda/kernels/xielu.h"
#include "ops/cuda/launch/activation_rows.h"
#include "ops/cuda/launch/launch_args.h"
#include "ops/cuda/launch/produced_rows.h"

namespace viaduct::cuda {

ActivationRows activation_rows(ActivationKind kind, bool gated, const GateShape& shape) {
  static_assert(static_cast<int>(ActivationKind::squared_relu) ==
                static_cast<int>(ActivationFunction::squared_relu));
  ActivationRows rows{static_cast<ActivationFunction>(kind), gated};
  rows.interleaved = shape.interleaved;
  rows.clamp = static_cast<float>(shape.clamp), rows.offset = static_cast<float>(shape.offset);
  return rows;
}

namespace {

void launch_norm_forward(OpContext& context, const Choice&, const NormForwardArgs& args,
                         void* workspace) {
  constexpr std::string_view op = "norm_forward";
  norm_forward({args.kind == NormKind::layer_norm, rows_of(op, args.x), rows_of(op, args.y),
                vector_of(op, args.weight), vector_of(op, args.bias), pointer_of<float>(args.mean),
                pointer_of<float>(args.rstd), row_count(args.x), width_of(args.x),
                static_cast<float>(args.eps), static_cast<float>(args.weight_offset),
                produced_rows(args.forms, workspace)},
               stream_of(context));
}

void launch_norm_backward(OpContext& context, const Choice&, const NormBackwardArgs& args,
                          void* workspace) {
  constexpr std::string_view op = "norm_backward";
  const int64_t rows = row_count(args.x);
  norm_backward({args.kind == NormKind::layer_norm, rows_of(op, args.dy), rows_of(op, args.x),
                 rows_of(op, args.dx_add), rows_of(op, args.dx), vector_of(op, args.weight),
                 pointer_of<float>(args.mean), args.rstd.data<float>(), args.d_weight.data<float>(),
                 pointer_of<float>(args.d_bias), static_cast<float*>(workspace), parts_of(rows),
                 rows, width_of(args.x), static_cast<float>(args.weight_offset)},
                stream_of(context));
}

void launch_column_sum(OpContext& context, const Choice&, const ColumnSumArgs& args,
                       void* workspace) {
  const int64_t rows = args.x.dim(0);
  column_sums(
      {rows_of("column_sum", args.x), args.out.data<float>(), static_cast<float*>(workspace),
       args.mode == WriteMode::accumulate, parts_of(rows), rows, args.x.dim(1)},
      stream_of(context));
}

void launch_activation(OpContext& context, const Choice&, const ActivationForwardArgs& args,
                       void* workspace) {
  constexpr std::string_view op = "activation_forward";
  ActivationRows rows = activation_rows(args.kind, args.gated, args.shape);
  rows.in = rows_of(op, args.in), rows.out = rows_of(op, args.out);
  rows.rows = args.out.dim(0), rows.width = args.out.dim(1);
  rows.forms = produced_rows(args.forms, workspace);
  activation_forward(rows, stream_of(context));
}

void launch_activation_backward(OpContext& context, const Choice&,
                                const ActivationBackwardArgs& args, void*) {
  constexpr std::string_view op = "activation_backward";
  ActivationRows rows = activation_rows(args.kind, args.gated, args.shape);
  rows.in = rows_of(op, args.in), rows.out = rows_of(op, args.d_out);
  rows.d_in = rows_of(op, args.d_in);
  rows.rows = args.d_out.dim(0), rows.width = args.d_out.dim(1);
  activation_backward(rows, stream_of(context));
}

void launch_xielu(OpContext& context, const Choice&, const XieluForwardArgs& args, void*) {
  constexpr std::string_view op = "xielu_forward";
  xielu_forward({rows_of(op, args.in), rows_of(op, args.out), vector_of(op, args.alpha_p),
                 vector_of(op, args.alpha_n), args.in.dim(0), args.in.dim(1)},
                stream_of(context));
}

void launch_xielu_backward(OpContext& context, const Choice&, const XieluBackwardArgs& args,
                           void* workspace) {
  constexpr std::string_view op = "xielu_backward";
  xielu_backward(
      {rows_of(op, args.d_out), rows_of(op, args.in), rows_of(op, args.d_in),
       vector_of(op, args.alpha_p), vector_of(op, args.alpha_n), pointer_of<float>(args.d_alpha_p),
       pointer_of<float>(args.d_alpha_n), static_cast<double*>(workspace), parts_of(args.in.dim(0)),
       args.in.dim(0), args.in.dim(1)},
      stream_of(context));
}

void launch_rotary(OpContext& context, const Choice&, const RotaryArgs& args, void*) {
  rotary({rows_of("rotary", args.x), args.positions.data<int32_t>(), args.cos.data<float>(),
          args.sin.data<float>(), args.x.dim(0), args.x.dim(1), args.cos.dim(1), args.cos.dim(0),
          args.inverse, args.interleaved},
         stream_of(context));
}

void launch_cross_entropy(OpContext& context, const Choice&, const CrossEntropyForwardArgs& args,
                          void*) {
  cross_entropy_forward(
      {rows_of("cross_entropy_forward", args.logits), args.targets.data<int32_t>(),
       args.lse.data<double>(), args.target_logit.data<double>(), args.logits.dim(0), args.columns,
       args.first_column, static_cast<float>(args.softcap)},
      stream_of(context));
}

void launch_cross_entropy_backward(OpContext& context, const Choice&,
                                   const CrossEntropyBackwardArgs& args, void*) {
  constexpr std::string_view op = "cross_entropy_backward";
  cross_entropy_backward(
      {rows_of(op, args.logits), rows_of(op, args.out), args.targets.data<int32_t>(),
       args.lse.data<double>(), args.weight.data<float>(), args.factor.data<double>(),
       args.logits.dim(0), args.columns, args.logits.dim(1), args.first_column,
       static_cast<float>(args.softcap)},
      stream_of(context));
}

void launch_lse_share(OpContext& context, const Choice&, const LseShareArgs& args, void*) {
  lse_share(args.lse.data<double>(), args.largest.data<double>(), args.share.data<double>(),
            args.lse.elements(), stream_of(context));
}

void launch_lse_join(OpContext& context, const Choice&, const LseJoinArgs& args, void*) {
  lse_join(args.shares.data<double>(), args.largest.data<double>(), args.lse.data<double>(),
           args.lse.elements(), stream_of(context));
}

}  // namespace

void add_row_launches(OpTable& table) {
  table.norm_forward.launch = launch_norm_forward;
  table.norm_backward.launch = launch_norm_backward;
  table.column_sum.launch = launch_column_sum;
  table.activation_forward.launch = launch_activation;
  table.activation_backward.launch = launch_activation_backward;
  table.xielu_forward.launch = launch_xielu;
  table.xielu_backward.launch = launch_xielu_backward;
  table.rotary.launch = launch_rotary;
  table.cross_entropy_forward.launch = launch_cross_entropy;
  table.cross_entropy_backward.launch = launch_cross_entropy_backward;
  table.lse_share.launch = launch_lse_share;
  table.lse_join.launch = launch_lse_join;
}

}  // namespace viaduct::cuda
