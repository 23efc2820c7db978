// Choices for attention on a GPU.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/library_attention.h"
#include "ops/cuda/library_call.h"

namespace viaduct::cuda {
namespace {

/// `most`: the widest heads for which the least shared memory of a block is enough.
const HeadWidths& checked_widths(std::string_view op, const Tensor& q, const Tensor& v,
                                 const Traits& traits, int most) {
  const HeadWidths* widths = head_widths_for(q.dim(2), v.dim(2));
  VIADUCT_CHECK(DeviceError, widths != nullptr,
                "{}: {} has kernels for head dims up to {}, not for {} (values: {}): set "
                "model.attention_backend to unfused",
                op, traits.name, std::end(kHeadWidths)[-1].width, q.dim(2), v.dim(2));
  VIADUCT_CHECK(DeviceError, traits.block_memory_bytes > kLeastBlockMemory || widths->width <= most,
                "{}: a block of {} has {} bytes of shared memory, enough for heads of {} up to {}, "
                "not for {} (values: {}): set model.attention_backend to unfused",
                op, traits.name, traits.block_memory_bytes, dtype_name(q.dtype()), most, q.dim(2),
                v.dim(2));
  return *widths;
}

/// The dtype whose matrix units the products use: codes of FP8 count as BF16, the narrowest format
/// that operations are counted in.
DType product_dtype(const Tensor& q) {
  return q.dtype() == DType::e4m3 ? DType::bf16 : q.dtype();
}

/// Scores of f32 tensors are computed by the vector units.
std::string_view flash_kernel(const Tensor& q) {
  if (q.dtype() == DType::e4m3) return "flash_fp8";
  return q.dtype() == DType::f32 ? "flash_f32" : "flash_mma";
}

template <class Args>
std::string attention_call(const Choice& choice, const Args&) {
  if (choice.kernel != kLibraryKernel) return "";
  return note_of(static_cast<const LibraryCalls*>(choice.plan.get())->kind);
}

template <class Args>
Choice library_choice(const Args& args, const LibraryCalls& calls) {
  Choice choice = choose_kernel(kLibraryKernel, args);
  use_matrix_units(choice.cost, args.q.dtype());
  choice.workspace_bytes = calls.workspace_bytes;
  choice.plan = std::make_shared<LibraryCalls>(calls);
  return choice;
}

/// Beyond the contract, memory has the matrix of score gradients and the gradients in 16 bits, each
/// written and read, and our kernels add the latter.
Choice library_backward_choice(const AttentionBackwardArgs& args, const LibraryCalls& calls) {
  Choice choice = library_choice(args, calls);
  const int64_t gradients = calls.library_at - calls.dq_at;
  const int64_t twice = calls.calls() * calls.library_bytes + gradients;
  choice.cost.bytes_read += twice + args.out.bytes() + args.d_out.bytes();
  choice.cost.bytes_written += twice;
  choice.launches = static_cast<int>(calls.calls()) * kLibraryBackwardKernels + 3;
  return choice;
}

Choice choose_forward(const AttentionForwardArgs& args, const Traits& traits) {
  constexpr std::string_view op = "attention_forward";
  LibraryCalls calls;
  if (library_takes(args, calls)) return library_choice(args, calls);
  checked_widths(op, args.q, args.v, traits, kSmallForward);
  const DType dtype = product_dtype(args.q);
  Choice choice = choose_kernel(op, flash_kernel(args.q), dtype, args, traits);
  use_matrix_units(choice.cost, dtype);
  return choice;
}

Choice choose_backward(const AttentionBackwardArgs& args, const Traits& traits) {
  constexpr std::string_view op = "attention_backward";
  LibraryCalls calls;
  if (library_takes(args, calls)) return library_backward_choice(args, calls);
  const int most = small_backward(args.q.dtype() == DType::f32);
  const int parts = checked_widths(op, args.q, args.v, traits, most).parts;
  const DType dtype = product_dtype(args.q);
  Choice choice = choose_kernel(op, flash_kernel(args.q), dtype, args, traits);
  // Both kernels compute q·k and d_out·v, that of the keys for each part of its columns: these two
  // of the five products are made that often once more.
  const auto width = static_cast<double>(args.q.dim(2));
  const auto value_width = static_cast<double>(args.v.dim(2));
  const double ratio = (width + value_width) / (3 * width + 2 * value_width);
  for (double& flops : choice.cost.flops) flops *= 1 + parts * ratio;
  use_matrix_units(choice.cost, dtype);
  choice.cost.bytes_read += parts * (args.q.bytes() + args.k.bytes() + args.v.bytes() +
                                     args.d_out.bytes() + args.lse.bytes() + args.delta.bytes());
  choice.launches = 2;
  return choice;
}

Choice choose_delta(const AttentionDeltaArgs& args, const Traits& traits) {
  const DType dtype = args.out_scale ? DType::f32 : args.out.dtype();
  return choose_kernel("attention_delta", "rows", dtype, args, traits);
}

Choice choose_merge(const AttentionMergeArgs& args, const Traits& traits) {
  return choose_kernel("attention_merge", "rows", args.out.dtype(), args, traits);
}

Choice choose_sink(const AttentionSinkArgs& args, const Traits& traits) {
  return choose_kernel("attention_sink", "rows", args.out.dtype(), args, traits);
}

Choice choose_sink_backward(const AttentionSinkBackwardArgs& args, const Traits& traits) {
  return choose_kernel("attention_sink_backward", "rows", args.lse.dtype(), args, traits);
}

Choice choose_repeat_heads(const RepeatHeadsArgs& args, const Traits& traits) {
  return choose_kernel("repeat_heads", "rows", args.out.dtype(), args, traits);
}

Choice choose_sum_heads(const SumHeadsArgs& args, const Traits& traits) {
  return choose_kernel("sum_heads", "rows", args.x.dtype(), args, traits);
}

}  // namespace

void add_attention(OpTable& table) {
  add_entry(table.attention_forward, choose_forward);
  table.attention_forward.library_call = attention_call<AttentionForwardArgs>;
  add_entry(table.attention_delta, choose_delta);
  add_entry(table.attention_backward, choose_backward);
  table.attention_backward.library_call = attention_call<AttentionBackwardArgs>;
  add_entry(table.attention_merge, choose_merge);
  add_entry(table.attention_sink, choose_sink);
  add_entry(table.attention_sink_backward, choose_sink_backward);
  add_entry(table.repeat_heads, choose_repeat_heads);
  add_entry(table.sum_heads, choose_sum_heads);
}

}  // namespace viaduct::cuda
