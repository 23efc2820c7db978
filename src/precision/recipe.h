#pragma once
// A precision recipe maps the roles that tensors play in training to number formats. Layers and the
// optimizer ask it by role and never name a format themselves.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/quantization.h"
#include "tensor/state_formats.h"

namespace viaduct {

/// Which magnitudes the scale of a whole matrix (Scaling::tensor) is made for.
enum class AmaxSource {
  ranks,    // the operand's, over the tensor and context ranks of its micro-batch
  own,      // those of this rank's part of it, and of the rows that tensor ranks gather
  history,  // those of earlier steps (ops/amax_history.h)
};

struct AmaxSettings {
  AmaxSource source = AmaxSource::ranks;
  // Of a history:
  int64_t steps = 1;                // that it holds
  bool most_recent = true;          // the last step's magnitude is used; false: the largest one
  int64_t margin = 0;               // powers of two above it that the scale leaves room for
  bool within_micro_batch = false;  // over tensor and context ranks; false: data ranks as well
};

/// `mixed_precision.recipe`. fp64 is for gradient checks; those with fp8, mxfp8 and nvfp4 are
/// bf16_mixed or fp16_mixed with quantized products, by Megatron-Bridge's names.
enum class RecipeName {
  fp32,
  bf16_mixed,
  fp16_mixed,
  fp64,
  bf16_with_fp8_delayed_scaling_mixed,
  fp16_with_fp8_delayed_scaling_mixed,
  bf16_with_fp8_current_scaling_mixed,
  fp16_with_fp8_current_scaling_mixed,
  nemotron_h_bf16_with_fp8_current_scaling_mixed,
  nanov2_bf16_with_fp8_current_scaling_mixed,
  bf16_with_fp8_subchannel_scaling_mixed,
  fp16_with_fp8_subchannel_scaling_mixed,
  bf16_with_mxfp8_mixed,
  fp16_with_mxfp8_mixed,
  bf16_with_nvfp4_mixed,
};
constexpr auto choice_names(RecipeName) {
  return std::to_array<std::string_view>({
      "fp32",
      "bf16_mixed",
      "fp16_mixed",
      "fp64",
      "bf16_with_fp8_delayed_scaling_mixed",
      "fp16_with_fp8_delayed_scaling_mixed",
      "bf16_with_fp8_current_scaling_mixed",
      "fp16_with_fp8_current_scaling_mixed",
      "nemotron_h_bf16_with_fp8_current_scaling_mixed",
      "nanov2_bf16_with_fp8_current_scaling_mixed",
      "bf16_with_fp8_subchannel_scaling_mixed",
      "fp16_with_fp8_subchannel_scaling_mixed",
      "bf16_with_mxfp8_mixed",
      "fp16_with_mxfp8_mixed",
      "bf16_with_nvfp4_mixed",
  });
}

/// How FP8 operands are scaled (`mixed_precision.fp8_recipe`).
enum class Fp8Scaling {
  tensorwise,  // of the tensor, from its own magnitudes
  delayed,     // from those of earlier steps
  blockwise,
  mxfp8,
};
constexpr auto choice_names(Fp8Scaling) {
  return std::to_array<std::string_view>({"tensorwise", "delayed", "blockwise", "mxfp8"});
}

/// Elements of FP8 operands (`mixed_precision.fp8`).
enum class Fp8Elements {
  e4m3,    // of all
  hybrid,  // of gradients E5M2
};
constexpr auto choice_names(Fp8Elements) {
  return std::to_array<std::string_view>({"e4m3", "hybrid"});
}

struct PrecisionRecipe {
  std::string name;
  DType weight = DType::f32;         // canonical weights that the GEMMs read
  DType activation = DType::f32;     // everything between ops except the residual stream
  DType stream = DType::f32;         // residual stream and its gradient
  DType main_gradient = DType::f32;  // what weight gradients accumulate in
  // What the optimizer reads and keeps. Masters, moments: also in the formats of
  // tensor/state_formats.h (f16 masters are scaled, i16 are remainders of BF16 weights).
  DType optimizer_gradient = DType::f32;  // bf16: main gradients themselves, if they are BF16
  DType master = DType::f32;              // what the optimizer updates
  DType first_moment = DType::f32;        // Adam's running means
  DType second_moment = DType::f32;
  DType statistic = DType::f32;  // row statistics: norm, softmax, loss
  bool loss_scaling = false;     // dynamic loss scale (the activation format has a narrow exponent)
  // Products of the linear layers inside blocks read operands that are quantized like this; tensors
  // stay in their formats. The first and the last blocks of the model may be left out.
  Quantization products;
  AmaxSettings amax;
  /// Weights with quantized products are stored only in FP8 or FP4, in addition to masters
  /// (parameter_store.h).
  bool stores_codes = false;
  int64_t plain_blocks_at_start = 0, plain_blocks_at_end = 0;
  // Paths of layers with plain products wherever they are: runs of whole names of a parameter's
  // path, as "blocks.3", "mlp.down".
  std::vector<std::string> plain_layers = {};

  /// True where the stored weights are themselves what the optimizer updates.
  bool master_is_weight() const {
    return weight == master && (master == DType::f32 || master == DType::f64);
  }
  /// Whether the linear layers of block `block` of `blocks` have quantized products, except those
  /// of `plain_layers`.
  bool quantizes(int64_t block, int64_t blocks) const {
    return products.any() && block >= plain_blocks_at_start && block < blocks - plain_blocks_at_end;
  }
  /// Whether `plain_layers` names the layer of the parameter with this path.
  bool is_plain_layer(std::string_view path) const;
  /// True where groups of elements of the optimizer's state share a scale.
  bool scaled_state() const {
    return has_state_scales(master) || has_state_scales(first_moment) ||
           has_state_scales(second_moment);
  }
};

/// The residual stream has the format of activations; with `fp32_residual` at least FP32.
PrecisionRecipe precision_recipe(RecipeName name, bool fp32_residual = false);
/// By the text of its name; ConfigError with the nearest one otherwise.
PrecisionRecipe precision_recipe(std::string_view name, bool fp32_residual = false);
Scaling scaling_of(Fp8Scaling fp8_recipe);
/// How NVFP4 quantizes products.
Quantization nvfp4_products();
DType gradient_element(Fp8Elements fp8);

}  // namespace viaduct
