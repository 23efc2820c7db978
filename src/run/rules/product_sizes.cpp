// Sizes of products with quantized operands.

#include <algorithm>
#include <vector>

#include "base/function_ref.h"
#include "run/rules/product_sizes.h"

namespace viaduct {
namespace {

using Layers = std::vector<std::string_view>;  // as linear_layers
/// Checks a size of the products of these layers.
using CheckSize = FunctionRef<void(const char* what, int64_t size, const Layers& layers)>;

/// Whether the products of any of these layers are quantized: layers in BF16 may have any size.
bool quantizes_any(const RunConfig& config, const PrecisionRecipe& recipe, const Layers& layers) {
  if (config.model.num_layers.is_auto()) return true;
  const int64_t blocks = config.model.num_layers.value();
  const auto quantized = [&](int64_t block) {
    if (!recipe.quantizes(block, blocks)) return false;
    return std::ranges::any_of(layers, [&](std::string_view layer) {
      return !recipe.is_plain_layer(fmt::format("blocks.{}.{}", block, layer));
    });
  };
  for (int64_t block = 0; block < blocks; ++block)
    if (quantized(block)) return true;
  return false;
}

/// Of layers without a window, where their heads are others; nothing is known of settings that are
/// still `auto`.
void check_full_attention_sizes(const ModelFields& m, int64_t tp, CheckSize check) {
  const auto size = [](const Auto<std::optional<int64_t>>& field) {
    return field.value_or(std::nullopt);
  };
  const auto channels = size(m.full_attention_kv_channels),
             groups = size(m.full_attention_num_query_groups);
  const bool shared = m.full_attention_values_from_keys.value_or(false);
  const bool windows_alone = m.window_size.value_or(std::nullopt) &&
                             std::ranges::count(m.window_layers.value_or({}), 0) == 0;
  if ((!channels && !groups && !shared) || windows_alone) return;
  const int64_t heads = m.num_attention_heads.value(),
                dim = channels.value_or(m.kv_channels.value()),
                kv_heads = groups.value_or(m.num_query_groups.value_or(heads));
  const int64_t queries = heads / tp * dim;
  check("num_attention_heads * full_attention_kv_channels / tensor_model_parallel_size", queries,
        {"attention.qkv", "attention.projection"});
  check("query, key and value features of layers without a window",
        queries + (shared ? 1 : 2) * std::max<int64_t>(1, kv_heads / tp) * dim, {"attention.qkv"});
}

void check_attention_sizes(const ModelFields& m, int64_t tp, CheckSize check) {
  if (m.num_attention_heads.is_auto() || m.kv_channels.is_auto()) return;
  const int64_t heads = m.num_attention_heads.value();
  const int64_t groups = m.num_query_groups.value_or(heads);
  const int64_t queries = heads / tp * m.kv_channels.value();
  check("num_attention_heads * kv_channels / tensor_model_parallel_size", queries,
        {"attention.qkv", "attention.projection"});
  check("query, key and value features",
        queries + 2 * std::max<int64_t>(1, groups / tp) * m.kv_channels.value(), {"attention.qkv"});
  check_full_attention_sizes(m, tp, check);
}

/// Rules on the products from the compressed vectors to heads, and back from heads.
void check_latent_sizes(const ModelFields& m, int64_t tp, CheckSize check) {
  const LatentFields& latent = m.latent;
  const Layers query{"attention.query"}, key_value{"attention.key_value"};
  if (!latent.q_lora_rank.is_auto() && latent.q_lora_rank.value())
    check("model.q_lora_rank", *latent.q_lora_rank.value(), query);
  if (!latent.kv_lora_rank.is_auto())
    check("model.kv_lora_rank", latent.kv_lora_rank.value(), key_value);
  if (m.num_attention_heads.is_auto() || latent.qk_head_dim.is_auto() ||
      latent.qk_pos_emb_head_dim.is_auto() || latent.v_head_dim.is_auto())
    return;
  const int64_t heads = m.num_attention_heads.value() / tp, values = latent.v_head_dim.value();
  check("num_attention_heads * (qk_head_dim + qk_pos_emb_head_dim) / tensor_model_parallel_size",
        heads * latent.head_dim(), query);
  check("num_attention_heads * (qk_head_dim + v_head_dim) / tensor_model_parallel_size",
        heads * (latent.qk_head_dim.value() + values), key_value);
  check("num_attention_heads * v_head_dim / tensor_model_parallel_size", heads * values,
        {"attention.projection"});
}

void check_feed_forward_sizes(const RunConfig& config, int64_t tp, CheckSize check) {
  const ModelFields& m = config.model;
  if (!m.ffn_hidden_size.is_auto()) {
    check("model.ffn_hidden_size / tensor_model_parallel_size", m.ffn_hidden_size.value() / tp,
          {"mlp.up", "mlp.down"});
  }
  if (m.moe.experts() == 0) return;
  const auto& shared = m.moe.moe_shared_expert_intermediate_size;
  if (!shared.is_auto() && shared.value()) {
    check("model.moe_shared_expert_intermediate_size / tensor_model_parallel_size",
          *shared.value() / tp, {"mlp.shared.up", "mlp.shared.down"});
  }
  const auto& experts = m.moe.moe_ffn_hidden_size;
  if (!experts.is_auto() && experts.value()) {
    check("model.moe_ffn_hidden_size / expert_tensor_parallel_size",
          *experts.value() / config.parallel.expert_tensor(),
          {"mlp.experts.up", "mlp.experts.down"});
  }
}

/// Sizes of the products of linear layers that a rank computes, where they are known, are multiples
/// of what FP8 units read at once: 16, or the 32 elements of an MX scale. The largest magnitude of
/// rotated tokens is computed where a rank has its part of them.
void validate_sizes_of_products(const RunConfig& config, const PrecisionRecipe& recipe,
                                Problems& problems) {
  const Scaling scaling = recipe.products.scaling;
  const int64_t unit = scaling == Scaling::mx ? 32 : 16;
  const ModelFields& m = config.model;
  const int64_t tp = config.parallel.tensor_model_parallel_size;
  const auto check = [&](const char* what, int64_t size, const Layers& layers) {
    if (size % unit == 0 || !quantizes_any(config, recipe, layers)) return;
    problems.add(
        "mixed_precision.{}: {} on a rank = {} is not a multiple of {}, as products of {} need; "
        "nearest: {}",
        scaling == Scaling::nvfp4 ? "fp4_recipe" : "fp8_recipe", what, size, unit,
        product_format_name(scaling), std::max<int64_t>(1, (size + unit / 2) / unit) * unit);
  };
  const Layers all = linear_layers(m);
  if (!m.hidden_size.is_auto()) check("model.hidden_size", m.hidden_size.value(), all);
  check_feed_forward_sizes(config, tp, check);
  if (m.latent.multi_latent_attention.value_or(false)) {
    check_latent_sizes(m, tp, check);
  } else {
    check_attention_sizes(m, tp, check);
  }
  if (!m.seq_length.is_auto()) {
    const int64_t tokens = config.train.micro_batch_rows() * m.seq_length.value() /
                           config.parallel.context_parallel_size;
    check("tokens of a micro-batch", tokens, all);
    const Auto<bool>& cut = config.parallel.sequence_parallel;
    if (scaling == Scaling::nvfp4 && !cut.is_auto() && cut.value() && tokens % unit == 0)
      check("tokens of a micro-batch / tensor_model_parallel_size", tokens / tp, all);
  }
}

}  // namespace

std::vector<std::string_view> linear_layers(const ModelFields& model) {
  const Auto<bool>& latent = model.latent.multi_latent_attention;
  std::vector<std::string_view> names;
  if (!latent.value_or(false)) names.push_back("attention.qkv");
  if (latent.value_or(true)) names.insert(names.end(), {"attention.query", "attention.key_value"});
  names.insert(names.end(), {"attention.projection", "mlp.up", "mlp.down"});
  if (model.moe.experts() > 0) {
    names.insert(names.end(),
                 {"mlp.experts.up", "mlp.experts.down", "mlp.shared.up", "mlp.shared.down"});
  }
  return names;
}

std::string_view product_format_name(Scaling scaling) {
  return scaling == Scaling::mx ? "MXFP8" : scaling == Scaling::nvfp4 ? "NVFP4" : "FP8";
}

void validate_product_sizes(const RunConfig& config, Problems& problems) {
  const PrecisionRecipe recipe = precision_recipe(config.mixed_precision);
  if (recipe.products.scaling != Scaling::none)
    validate_sizes_of_products(config, recipe, problems);
}

}  // namespace viaduct
