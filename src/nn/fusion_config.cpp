#include "nn/fusion_config.h"

namespace viaduct {
namespace {

constexpr int64_t kMaxKeptLogits = int64_t{1} << 30;

}  // namespace

bool fuses_with_bias(FeedForwardActivation activation) {
  return activation != FeedForwardActivation::relu &&
         activation != FeedForwardActivation::squared_relu;
}

void FusionConfig::resolve(FeedForwardActivation activation, int64_t logits_bytes) {
  bias_activation_fusion.resolve(fuses_with_bias(activation));
  recompute_logits.resolve(cross_entropy_loss_fusion && logits_bytes > kMaxKeptLogits);
}

Fusions FusionConfig::fusions() const {
  return {bias_activation_fusion.value(), bias_dropout_fusion, gradient_accumulation_fusion,
          cross_entropy_loss_fusion, gemm_epilogue_fusion};
}

FieldGroup fusion_fields(FusionConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group.field("cross_entropy_loss_fusion", config.cross_entropy_loss_fusion,
              "The head works on chunks of tokens, and their gradient replaces their logits; off: "
              "logits, exponentials and their gradient are whole tensors in FP32, one op each.");
  group
      .field("cross_entropy_fusion_impl", config.cross_entropy_fusion_impl,
             "Implementation of the fused cross entropy.")
      .planned_values({"te"}, "a kernel of the cuda backend");
  group
      .field("gradient_accumulation_fusion", config.gradient_accumulation_fusion,
             "Weight-gradient GEMMs add straight into the main gradient; off: into a temporary "
             "tensor, which is then added.")
      .constraint("required by comm_overlap.defer_embedding_wgrad_compute");
  group
      .field("bias_activation_fusion", config.bias_activation_fusion,
             "The bias of the first feed-forward layer is added in its GEMM, and a gated "
             "activation multiplies at once; off: one op each. auto: on for activations that allow "
             "it.")
      .constraint("true not with activation_func relu or squared_relu");
  group.field("bias_dropout_fusion", config.bias_dropout_fusion,
              "Biases of the projections into the residual stream are added in their GEMMs, and "
              "dropout adds the residual; off: one op each.");
  group.field("gemm_epilogue_fusion", config.gemm_epilogue_fusion,
              "GEMMs continue on a tile of their result while it is in cache: the activation, "
              "forward and backward (where bias_activation_fusion is on), and the sum with the "
              "residual stream (where bias_dropout_fusion is on, and no dropout, norm or sum over "
              "tensor ranks is in between). Off: separate ops, with the same bits.");
  group
      .field("recompute_logits", config.recompute_logits,
             "The backward of the head recomputes the logits; off: the forward keeps them, in the "
             "activations' format, V / tp values for each token of a micro-batch. auto: off where "
             "they "
             "take at most 1 GiB on a rank.")
      .constraint("true needs cross_entropy_loss_fusion");
  return group;
}

}  // namespace viaduct
