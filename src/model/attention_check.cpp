#include "model/attention_check.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"

namespace viaduct {
namespace {

void check_latent_attention(const ModelConfig& c, std::vector<std::string>& problems) {
  const LatentSizes& sizes = c.latent;
  if (!sizes.any()) return;
  const auto expect = [&](bool holds, const char* field, auto&& expected, auto&& found) {
    if (!holds)
      problems.push_back(fmt::format("model.{}: {} with multi_latent_attention, expected {}", field,
                                     found, expected));
  };
  expect(sizes.q_rank >= 0, "q_lora_rank", "at least 1, or null", sizes.q_rank);
  expect(sizes.plain_dim >= 1, "qk_head_dim", "at least 1", sizes.plain_dim);
  expect(sizes.rotary_dim >= 2 && sizes.rotary_dim % 2 == 0, "qk_pos_emb_head_dim",
         "an even number", sizes.rotary_dim);
  expect(sizes.value_dim >= 1, "v_head_dim", "at least 1", sizes.value_dim);
  expect(sizes.norm_eps >= 0 && std::isfinite(sizes.norm_eps), "latent_layernorm_epsilon",
         "a number above 0, or null", sizes.norm_eps);
  expect(c.head_dim == sizes.plain_dim + sizes.rotary_dim, "kv_channels",
         fmt::format("qk_head_dim + qk_pos_emb_head_dim = {}", sizes.plain_dim + sizes.rotary_dim),
         c.head_dim);
  expect(c.kv_heads == c.heads, "num_query_groups",
         fmt::format("num_attention_heads = {}", c.heads), c.kv_heads);
  expect(c.qk_norm, "qk_layernorm", "true (norms on the compressed vectors)", "false");
  expect(c.norm == NormKind::rms_norm, "normalization", "RMSNorm", "LayerNorm");
  expect(c.positions == PositionKind::rotary && c.rotary.width == sizes.rotary_dim,
         "position_embedding_type", "rope over qk_pos_emb_head_dim", "another one");
  expect(!c.qk_norm_after_rotary, "qk_layernorm_after_rope", "false", "true");
  expect(!c.qkv_bias, "add_qkv_bias", "false", "true");
  expect(!c.output_norms, "post_sublayer_norm", "false", "true");
  expect(!c.parallel_block, "parallel_block", "false", "true");
  expect(!c.qk_norm_own_weights, "qk_layernorm_own_weights", "false", "true");
  expect(!c.attention_sinks, "softmax_type", "vanilla", "learnable");
}

/// Of windows and chunks.
void check_layers_of_sizes(const ModelConfig& c, std::vector<std::string>& problems) {
  if (!c.windows.empty() && static_cast<int64_t>(c.windows.size()) != c.layers) {
    problems.push_back(
        fmt::format("model.window_layers: {} for {}",
                    counted(static_cast<int64_t>(c.windows.size()), "sliding window"),
                    counted(c.layers, "layer")));
  }
  if (!c.chunks.empty() && static_cast<int64_t>(c.chunks.size()) != c.layers) {
    problems.push_back(
        fmt::format("model.attention_chunk_layers: {} for {}",
                    counted(static_cast<int64_t>(c.chunks.size()), "entry", "entries"),
                    counted(c.layers, "layer")));
  }
}

void check_norms_of_heads(const ModelConfig& c, std::vector<std::string>& problems) {
  if (c.qk_norm && c.qk_norm_own_weights && !c.qk_norm_per_head) {
    problems.push_back(
        "model.qk_layernorm_own_weights: true needs qk_layernorm_per_head, which is false");
  }
  const auto refuse_norm = [&](bool refused, const char* with) {
    if (c.qk_l2_norm && refused)
      problems.push_back(fmt::format("model.qk_l2_norm: true is not implemented with {}", with));
  };
  refuse_norm(c.qk_norm, "qk_layernorm");
  refuse_norm(c.latent.any(), "multi_latent_attention");
  refuse_norm(c.positions != PositionKind::rotary, "positions other than rope");
  // The norm stands after the rotation in Llama 4.
  refuse_norm(c.rotary.attention_factor != 1,
              "a rope_scaling that lengthens heads (yarn, longrope)");
}

void check_full_attention(const ModelConfig& c, std::vector<std::string>& problems) {
  const FullAttention& full = c.full;
  const auto expect = [&](bool holds, const char* field, auto&& found, const char* needed) {
    if (!holds) problems.push_back(fmt::format("model.{}: {} needs {}", field, found, needed));
  };
  const char *dim = "full_attention_kv_channels", *groups = "full_attention_num_query_groups",
             *shared = "full_attention_values_from_keys";
  const char* any = full.head_dim > 0 ? dim : full.kv_heads > 0 ? groups : shared;
  expect(!full.any() || !c.latent.any(), any, "a value", "multi_latent_attention=false");
  expect(!full.any() || !c.encoder.any(), any, "a value", "a model without an encoder");
  // Its slopes stand in keys of one size (nn/linear_bias.h).
  expect(!full.any() || c.positions != PositionKind::linear_bias, any, "a value",
         "positions without alibi");
  expect(full.head_dim >= 0, dim, full.head_dim, "at least 1");
  expect(full.kv_heads >= 0 && (full.kv_heads == 0 || c.heads % full.kv_heads == 0), groups,
         full.kv_heads, fmt::format("a divisor of num_attention_heads = {}", c.heads).c_str());
  const bool rotates = c.positions == PositionKind::rotary;
  if (full.head_dim > 0 && full.head_dim != c.head_dim) {
    expect(!rotates || c.window_rotary_base > 0, dim, full.head_dim, "window_rotary_base");
    expect(!rotates || (c.window_rotary_width() >= 2 && c.window_rotary_width() % 2 == 0), dim,
           full.head_dim, "an even number of rotated dims in layers with a window");
    expect(!c.no_rope_temperature.any(), dim, full.head_dim, "no_rope_temperature_scale=null");
    expect(!c.qk_norm_own_weights, dim, full.head_dim, "qk_layernorm_own_weights=false");
  }
  expect(!full.values_from_keys ||
             (c.v_l2_norm && c.qk_norm && !c.qk_norm_after_rotary && !c.qk_norm_own_weights),
         shared, "true", "v_l2_norm and qk_layernorm before rope");
  expect(!c.v_l2_norm || !c.latent.any(), "v_l2_norm", "true", "multi_latent_attention=false");
  expect(!c.v_l2_norm || !c.encoder.any(), "v_l2_norm", "true", "a model without an encoder");
}

}  // namespace

void check_attention(const ModelConfig& config, std::vector<std::string>& problems) {
  check_latent_attention(config, problems);
  check_layers_of_sizes(config, problems);
  check_norms_of_heads(config, problems);
  check_full_attention(config, problems);
}

}  // namespace viaduct
