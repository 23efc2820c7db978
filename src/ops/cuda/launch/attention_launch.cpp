// Launches of attention, and of its row-wise parts.

#include <cmath>
#include <limits>

#include "ops/cuda/kernels/attention_rows.h"
#include "ops/cuda/launch/attention_view.h"
#include "ops/cuda/launch/library_attention_launch.h"
#include "ops/table.h"

namespace viaduct::cuda {
namespace {

void checked_int(std::string_view op, std::string_view what, int64_t value) {
  VIADUCT_CHECK(DeviceError, value <= std::numeric_limits<int32_t>::max(),
                "{}: cuda counts {} in 32 bits, found {}", op, what, value);
}

AttentionProblemView problem_of(std::string_view op, const AttentionProblem& problem,
                                const Tensor& q, const Tensor& k, const Tensor& v,
                                const Tensor& lse) {
  AttentionProblemView view = document_view(op, problem, q.dim(0), k.dim(0));
  if (problem.scales) {
    view.codes.scales = problem.scales.data<float>();
  } else {
    view.format = format_of(op, q.dtype());
  }
  view.kv_heads = static_cast<int>(k.dim(1)), view.group = static_cast<int>(q.dim(1) / k.dim(1));
  view.width = static_cast<int>(q.dim(2)), view.value_width = static_cast<int>(v.dim(2));
  // A tile of rows may begin up to 64 before the last.
  checked_int(op, "rows (queries of all heads that share a key-value head)",
              view.queries * view.group + 64);
  view.q = heads_of(q), view.k = heads_of(k), view.v = heads_of(v);
  view.wide = is_wide_heads(q) && is_wide_heads(k) && is_wide_heads(v);
  view.lse = lse.data<float>();
  return view;
}

const LibraryCalls& calls_of(const Choice& choice) {
  return *static_cast<const LibraryCalls*>(choice.plan.get());
}

void launch_forward(OpContext& context, const Choice& choice, const AttentionForwardArgs& args,
                    void* workspace) {
  if (is_library(choice)) return launch_library_forward(context, calls_of(choice), args, workspace);
  const AttentionForwardView view{
      problem_of("attention_forward", args.problem, args.q, args.k, args.v, args.lse),
      heads_of(args.out), format_of("attention_forward", args.out.dtype())};
  attention_forward(view, stream_of(context));
}

void launch_backward(OpContext& context, const Choice& choice, const AttentionBackwardArgs& args,
                     void* workspace) {
  if (is_library(choice))
    return launch_library_backward(context, calls_of(choice), args, workspace);
  AttentionBackwardView view{
      problem_of("attention_backward", args.problem, args.q, args.k, args.v, args.lse),
      heads_of(args.d_out),
      args.delta.data<float>(),
      args.dq.data<float>(),
      args.dk.data<float>(),
      args.dv.data<float>()};
  view.problem.wide = view.problem.wide && is_wide_heads(args.d_out);
  view.problem.codes.d_out_scale = pointer_of<float>(args.d_out_scale);
  view.problem.codes.d_out_e5m2 = args.d_out.dtype() == DType::e5m2;
  attention_backward_keys(view, stream_of(context));
  attention_backward_queries(view, stream_of(context));
}

/// [T, N, D], of FP8 where there is a scale.
CodedRows coded_rows(std::string_view op, const Tensor& x, const Tensor& scale) {
  if (!scale) return {rows_of(op, x)};
  return {{.data = x.raw(), .middle = x.dim(1), .strides = {x.stride(0), x.stride(1)}},
          scale.data<float>(),
          x.dtype() == DType::e5m2};
}

void launch_delta(OpContext& context, const Choice&, const AttentionDeltaArgs& args, void*) {
  constexpr std::string_view op = "attention_delta";
  attention_delta(
      {coded_rows(op, args.out, args.out_scale), coded_rows(op, args.d_out, args.d_out_scale),
       args.delta.data<float>(), args.out.dim(0), args.out.dim(1), args.out.dim(2)},
      stream_of(context));
}

void launch_merge(OpContext& context, const Choice&, const AttentionMergeArgs& args, void*) {
  constexpr std::string_view op = "attention_merge";
  attention_merge({rows_of(op, args.out), rows_of(op, args.other_out), args.lse.data<float>(),
                   args.other_lse.data<float>(), args.out.dim(0), args.out.dim(1), args.out.dim(2)},
                  stream_of(context));
}

void launch_sink(OpContext& context, const Choice&, const AttentionSinkArgs& args, void*) {
  constexpr std::string_view op = "attention_sink";
  attention_sink({rows_of(op, args.out), args.lse.data<float>(), vector_of(op, args.sink),
                  args.out.dim(0), args.out.dim(1), args.out.dim(2)},
                 stream_of(context));
}

void launch_sink_backward(OpContext& context, const Choice&, const AttentionSinkBackwardArgs& args,
                          void*) {
  attention_sink_backward({args.lse.data<float>(), args.delta.data<float>(),
                           vector_of("attention_sink_backward", args.sink),
                           args.d_sink.data<float>(), args.lse.dim(1), args.lse.dim(0)},
                          stream_of(context));
}

void launch_repeat_heads(OpContext& context, const Choice&, const RepeatHeadsArgs& args, void*) {
  constexpr std::string_view op = "repeat_heads";
  repeat_heads({rows_of(op, args.out), rows_of(op, args.x), args.out.dim(0), args.out.dim(1),
                args.out.dim(2)},
               stream_of(context));
}

void launch_sum_heads(OpContext& context, const Choice&, const SumHeadsArgs& args, void*) {
  constexpr std::string_view op = "sum_heads";
  sum_heads(
      {rows_of(op, args.x), rows_of(op, args.out), args.x.dim(0), args.x.dim(1), args.x.dim(2)},
      stream_of(context));
}

}  // namespace

Heads heads_of(const Tensor& x) {
  return {x.raw(), x.stride(0), x.stride(1)};
}

bool is_wide_heads(const Tensor& x) {
  const int64_t run = 16 / dtype_bytes(x.dtype());
  return is_wide(x.raw()) && x.stride(0) % run == 0 && x.stride(1) % run == 0 &&
         x.dim(2) % run == 0;
}

AttentionProblemView document_view(std::string_view op, const AttentionProblem& problem,
                                   int64_t queries, int64_t keys) {
  AttentionProblemView view{};
  view.documents = static_cast<int>(problem.q_offsets.dim(0) - 1);
  view.q_offsets = problem.q_offsets.data<int32_t>();
  view.kv_offsets = problem.kv_offsets.data<int32_t>();
  view.diagonal = pointer_of<int32_t>(problem.diagonal);
  view.queries = queries, view.keys = keys;
  checked_int(op, "keys", keys + 64);
  view.causal = problem.causal;
  view.window = problem.window;
  view.scale = static_cast<float>(problem.scale);
  view.softcap = static_cast<float>(problem.softcap);
  if (problem.dropout > 0) {
    view.dropout = true;
    view.dropout_key = philox_key(problem.dropout_key);
    view.dropout_threshold = static_cast<uint32_t>(std::ceil(problem.dropout * 0x1p23 - 0.5));
    view.dropout_factor = static_cast<float>(1 / (1 - problem.dropout));
    view.query_index = problem.query_index.data<int64_t>();
    view.key_position = pointer_of<int32_t>(problem.key_position);
    view.first_head = static_cast<uint32_t>(problem.first_head);
  }
  return view;
}

void add_attention_launches(OpTable& table) {
  table.attention_forward.launch = launch_forward;
  table.attention_backward.launch = launch_backward;
  table.attention_delta.launch = launch_delta;
  table.attention_merge.launch = launch_merge;
  table.attention_sink.launch = launch_sink;
  table.attention_sink_backward.launch = launch_sink_backward;
  table.repeat_heads.launch = launch_repeat_heads;
  table.sum_heads.launch = launch_sum_heads;
}

}  // namespace viaduct::cuda
