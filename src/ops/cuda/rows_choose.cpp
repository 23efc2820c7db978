// Choices for row-wise ops on a GPU: norms, activations, rotary embedding, look-ups and
// cross entropy.

#include <bit>

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/produced_choose.h"

namespace viaduct::cuda {
namespace {

/// A kernel of rows that makes these forms of its result besides.
Choice with_forms(Choice choice, const ProducedForms& forms) {
  if (!forms.any()) return choice;
  choice.kernel = "rows_with_forms";
  choice.workspace_bytes = forms_workspace(forms);
  choice.launches += forms_launches(forms);
  return choice;
}

Choice choose_norm_forward(const NormForwardArgs& args, const Traits& traits) {
  return with_forms(choose_kernel("norm_forward", "rows", args.x.dtype(), args, traits),
                    args.forms);
}

Choice choose_norm_backward(const NormBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_kernel("norm_backward", "row_parts", args.x.dtype(), args, traits);
  const int64_t width = args.x.dim(-1);
  choice.workspace_bytes =
      parts_of(args.x.elements() / width) * width * (args.d_bias ? 2 : 1) * dtype_bytes(DType::f32);
  choice.launches = 2;
  return choice;
}

Choice choose_activation(const ActivationForwardArgs& args, const Traits& traits) {
  return with_forms(choose_kernel("activation_forward", "rows", args.in.dtype(), args, traits),
                    args.forms);
}

Choice choose_activation_backward(const ActivationBackwardArgs& args, const Traits& traits) {
  return choose_kernel("activation_backward", "rows", args.in.dtype(), args, traits);
}

Choice choose_xielu(const XieluForwardArgs& args, const Traits& traits) {
  return choose_kernel("xielu_forward", "rows", args.in.dtype(), args, traits);
}

Choice choose_xielu_backward(const XieluBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_kernel("xielu_backward", "row_parts", args.in.dtype(), args, traits);
  choice.workspace_bytes = 2 * parts_of(args.in.dim(0)) * dtype_bytes(DType::f64);
  choice.launches = args.d_alpha_p ? 2 : 1;
  return choice;
}

Choice choose_rotary(const RotaryArgs& args, const Traits& traits) {
  return choose_kernel("rotary", "rows", args.x.dtype(), args, traits);
}

Choice choose_embedding(const EmbeddingForwardArgs& args, const Traits& traits) {
  if (dtype_bytes(args.weight.dtype()) == 1) return choose_kernel("copy_rows", args);  // codes
  return choose_kernel("embedding_forward", "rows", args.weight.dtype(), args, traits);
}

/// Tokens are sorted by row, in order within a row, by a radix sort of 8 bits a pass (two kernels:
/// count, then place); a last kernel sums each row's tokens.
Choice choose_embedding_backward(const EmbeddingBackwardArgs& args, const Traits& traits) {
  Choice choice =
      choose_kernel("embedding_backward", "sorted_rows", args.d_out.dtype(), args, traits);
  constexpr int64_t kBitsPerPass = 8, kTokensPerBlock = 2048, kBytesPerToken = 8;  // row and token
  const int64_t tokens = args.ids.dim(0);
  const int64_t bits = std::bit_width(static_cast<uint64_t>(args.d_weight.dim(0)));
  const int64_t passes = (bits + kBitsPerPass - 1) / kBitsPerPass;
  const int64_t blocks = (tokens + kTokensPerBlock - 1) / kTokensPerBlock;
  choice.workspace_bytes = 2 * tokens * kBytesPerToken + (blocks << kBitsPerPass) * 4;
  choice.launches = static_cast<int>(2 * passes) + 1 + (args.mode == WriteMode::assign ? 1 : 0);
  choice.cost.bytes_read += 2 * passes * tokens * kBytesPerToken;
  choice.cost.bytes_written += passes * tokens * kBytesPerToken;
  return choice;
}

Choice choose_cross_entropy(const CrossEntropyForwardArgs& args, const Traits& traits) {
  return choose_kernel("cross_entropy_forward", "rows", args.logits.dtype(), args, traits);
}

Choice choose_cross_entropy_backward(const CrossEntropyBackwardArgs& args, const Traits& traits) {
  return choose_kernel("cross_entropy_backward", "rows", args.logits.dtype(), args, traits);
}

/// A few FP64 numbers for each token.
template <class Args>
Choice choose_lse(const Args& args, const Traits&) {
  return choose_kernel("rows", args);
}

}  // namespace

void add_rows(OpTable& table) {
  add_entry(table.norm_forward, choose_norm_forward);
  add_entry(table.norm_backward, choose_norm_backward);
  add_entry(table.activation_forward, choose_activation);
  add_entry(table.activation_backward, choose_activation_backward);
  add_entry(table.xielu_forward, choose_xielu);
  add_entry(table.xielu_backward, choose_xielu_backward);
  add_entry(table.rotary, choose_rotary);
  add_entry(table.embedding_forward, choose_embedding);
  add_entry(table.embedding_backward, choose_embedding_backward);
  add_entry(table.cross_entropy_forward, choose_cross_entropy);
  add_entry(table.cross_entropy_backward, choose_cross_entropy_backward);
  add_entry(table.lse_share, choose_lse<LseShareArgs>);
  add_entry(table.lse_join, choose_lse<LseJoinArgs>);
}

}  // namespace viaduct::cuda
