#include <algorithm>

#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const AttentionKernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::attention_kernels, avx2::attention_kernels,
                    avx512::attention_kernels);
}

AttentionRows rows_of(const Tensor& out, const Tensor& other, const Tensor& per_query) {
  AttentionRows rows;
  rows.dtype = out.dtype();
  rows.other_dtype = other.dtype();
  rows.tokens = out.dim(0);
  rows.heads = out.dim(1);
  rows.width = out.dim(2);
  rows.out = out.raw();
  rows.other = other.raw();
  rows.out_token = out.stride(0);
  rows.out_head = out.stride(1);
  rows.other_token = other.stride(0);
  rows.other_head = other.stride(1);
  rows.per_query = per_query.data<float>();
  return rows;
}

/// Runs `f(begin, end)` over runs of tokens whose boundaries depend only on the shape.
template <class F>
void for_token_runs(OpContext& context, const Tensor& out, F&& f) {
  const int64_t tokens = out.dim(0);
  const int64_t elements = std::max<int64_t>(1, out.dim(1) * out.dim(2));
  const int64_t step = std::max<int64_t>(1, 16384 / elements);
  context.device.pool().run((tokens + step - 1) / step, [&](int64_t task, int) {
    f(task * step, std::min(tokens, (task + 1) * step));
  });
}

template <CpuIsa isa>
Choice choose_delta(const AttentionDeltaArgs& args, const Traits&) {
  Choice choice =
      vector_choice("attention_delta", isa, args.out_scale ? DType::f32 : args.out.dtype());
  choice.cost = cost_of(args);
  return choice;
}

void launch_delta(OpContext& context, const Choice& choice, const AttentionDeltaArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::attention_delta(args);
  AttentionRows rows = rows_of(args.out, args.d_out, args.delta);
  for (const Tensor* scale : {&args.out_scale, &args.d_out_scale})
    if (*scale) rows.factor *= scale->data<float>()[0];
  for_token_runs(context, args.out,
                 [&](int64_t begin, int64_t end) { kernels(choice).delta(rows, begin, end); });
}

template <CpuIsa isa>
Choice choose_merge(const AttentionMergeArgs& args, const Traits&) {
  Choice choice = vector_choice("attention_merge", isa, args.out.dtype());
  choice.cost = cost_of(args);
  return choice;
}

void launch_merge(OpContext& context, const Choice& choice, const AttentionMergeArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::attention_merge(args);
  AttentionRows rows = rows_of(args.out, args.other_out, args.lse);
  rows.other_lse = args.other_lse.data<float>();
  for_token_runs(context, args.out,
                 [&](int64_t begin, int64_t end) { kernels(choice).merge(rows, begin, end); });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.attention_delta = {choose_delta<isa>, launch_delta};
  table.attention_merge = {choose_merge<isa>, launch_merge};
}

}  // namespace

void add_attention_rows(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill<CpuIsa::portable>, fill<CpuIsa::avx2>, fill<CpuIsa::avx512>)(table);
}

}  // namespace viaduct::cpu
