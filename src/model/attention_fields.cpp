#include "model/attention_fields.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"

namespace viaduct {

std::string without_library_attention(const ModelFields& m) {
  const auto without = [](std::string_view what) {
    return fmt::format("cuDNN computes no attention with {} here, flash kernels do", what);
  };
  if (m.attention_dropout.value() > 0) return without("model.attention_dropout");
  if (m.attn_logit_softcapping.value()) return without("model.attn_logit_softcapping");
  return reason_if(m.window_size.value() && m.window_layers.value().empty(),
                   without("model.window_size on every layer"));
}

void add_attention_fields(FieldGroup& group, ModelFields& config) {
  const auto all_windows = [&config] {
    return config.window_size.value() && std::ranges::count(config.window_layers.value(), 0) == 0;
  };
  constexpr const char* kAllWindows = "every layer has a window";
  const auto no_norms = [&config] { return !config.qk_layernorm.value(); };
  constexpr const char* kNoNorms = "model.qk_layernorm = false";
  group.field("qk_layernorm", config.qk_layernorm,
              "Norms on query and key (Qwen 3); with multi_latent_attention on the compressed "
              "vectors.");
  group
      .field("qk_layernorm_per_head", config.qk_layernorm_per_head,
             "qk_layernorm: on each head; false: over all heads of query, and over all of key "
             "(OLMoE).")
      .constraint("false needs num_query_groups divisible by tp")
      .idle(no_norms, kNoNorms);
  group
      .field("qk_layernorm_after_rope", config.qk_layernorm_after_rope,
             "qk_layernorm: after rotary positions (Hunyuan); false: before them (Qwen 3).")
      .constraint("without multi_latent_attention")
      .idle([&config] {
        const PositionKind kind = config.position_embedding_type.value();
        return reason_if(kind != PositionKind::rotary,
                         stated("model.position_embedding_type", kind));
      })
      .idle(no_norms, kNoNorms);
  group
      .field("qk_layernorm_own_weights", config.qk_layernorm_own_weights,
             "qk_layernorm on each head: with weights of the head's own, of the kind that "
             "normalization says, without a bias (StableLM 2 12B, Command R+).")
      .constraint("needs qk_layernorm_per_head, and family stablelm or cohere")
      .idle(no_norms, kNoNorms);
  group
      .field("qk_l2_norm", config.qk_l2_norm,
             "Norms without weights on each head of query and key, in layers with rotary positions "
             "(Llama 4).")
      .constraint("needs rope; not with qk_layernorm or multi_latent_attention");
  group
      .field("v_l2_norm", config.v_l2_norm,
             "Norms without weights on each head of value (Gemma 4).")
      .constraint("without multi_latent_attention and encoder_num_layers");
  add_latent_fields(group, config.latent);
  group
      .field("window_size", config.window_size,
             "Sliding window: keys that a query attends, itself included; null: all.")
      .range(1)
      .in("tokens");
  group
      .field(
          "window_layers", config.window_layers,
          "1 for a layer with the window, 0 for one without; empty: the window is on every layer.")
      .range(0, 1)
      .alias("window_attn_skip_freq")
      .constraint("one entry per layer")
      .idle([&config] { return !config.window_size.value(); }, "model.window_size is null");
  group
      .field("full_attention_kv_channels", config.full_attention_kv_channels,
             "Channels of a head in layers without a window (Gemma 4); null: kv_channels.")
      .range(1)
      .constraint(
          "with rope needs window_rotary_base; without multi_latent_attention, alibi and "
          "no_rope_temperature_scale")
      .idle(all_windows, kAllWindows);
  group
      .field("full_attention_num_query_groups", config.full_attention_num_query_groups,
             "Key-value heads in layers without a window (Gemma 4); null: num_query_groups.")
      .range(1)
      .constraint(
          "divides num_attention_heads; a tensor rank has whole heads of both numbers, or "
          "shares one with as many ranks; without multi_latent_attention and alibi")
      .idle(all_windows, kAllWindows);
  group
      .field("full_attention_values_from_keys", config.full_attention_values_from_keys,
             "Layers without a window have no projection of values: values are the keys before "
             "their norm and rotation (Gemma 4).")
      .constraint(
          "needs v_l2_norm, qk_layernorm before rope, and a family that does not store query, key "
          "and value as one")
      .idle(all_windows, kAllWindows);
  group
      .field(
          "attention_chunk_size", config.attention_chunk_size,
          "Documents are cut into chunks of this many tokens, and a query attends to the keys of "
          "its chunk alone (Llama 4); null: not cut.")
      .range(1, kMostPositions)
      .in("tokens")
      .constraint("with context_parallel_size > 1 those layers need cp_comm_type=a2a");
  group
      .field("attention_chunk_layers", config.attention_chunk_layers,
             "1 for a layer that attends in chunks, 0 for one that attends to the whole document; "
             "empty: every layer does.")
      .range(0, 1)
      .constraint("one entry per layer")
      .idle([&config] { return !config.attention_chunk_size.value(); },
            "model.attention_chunk_size is null");
  group
      .field("attn_logit_softcapping", config.attn_logit_softcapping,
             "c · tanh(x / c) on attention scores; null: off.")
      .positive();
  group
      .field("final_logit_softcapping", config.final_logit_softcapping,
             "c · tanh(x / c) on the logits; null: off.")
      .positive();
  group
      .field(
          "softmax_scale", config.softmax_scale,
          "Factor on query · key; null: 1 / sqrt(kv_channels), with multi_latent_attention times "
          "the square of YaRN's mscale_all_dim factor (rope_scaling).")
      .positive();
  group
      .field("attention_temperature_scale", config.attention_temperature_scale,
             "s: queries at position p are multiplied by 1 + s · ln(1 + ⌊p / "
             "attention_temperature_length⌋) (Ministral 3: 0.1); null: 1 everywhere.")
      .positive()
      .constraint(
          "needs rope in whole heads of every layer (rotary_percent=1, no_rope_freq=[]), "
          "one base of rotary positions, and attention that is not latent")
      .idle([&config] {
        const auto length = config.attention_temperature_length.value().value_or(
            config.max_position_embeddings.value());
        return reason_if(config.seq_length.value() <= length,
                         fmt::format("rows of {} end before its first step, at {}",
                                     counted(config.seq_length.value(), "token"), length));
      });
  group
      .field("attention_temperature_length", config.attention_temperature_length,
             "Tokens from one step of attention_temperature_scale to the next; null: "
             "max_position_embeddings.")
      .range(1, kMostPositions)
      .in("tokens")
      .idle([&config] { return !config.attention_temperature_scale.value(); },
            "model.attention_temperature_scale is null");
  group
      .field("softmax_type", config.softmax_type,
             "Attention's softmax. learnable: each head has one more logit, a parameter, in its "
             "softmax, which weights no value (GPT-OSS's sinks).")
      .planned_values({"off-by-one"}, "a logit of 0 in its place; nearest: learnable");
  group
      .field("attention_backend", config.attention_backend,
             "How attention is computed; auto: flash, which holds no score matrix, and fused on "
             "GPUs of compute capability 9.0 or newer where cuDNN is found and computes attention "
             "of the model. fused: cuDNN on cuda, where it supports the call, and flash elsewhere "
             "(docs/cuda.md). unfused: a chain of ops over a matrix [heads, queries, keys] in "
             "FP32.")
      .planned_values({"local"}, "the framework's own kernels; nearest: unfused")
      .constraint("fused needs dist.device=cuda, or a dry run for a GPU, and 16-bit activations")
      .alias("AttnBackend")
      .on_resume(resume::free)
      .idle([&config] {
        const bool asked =
            config.attention_backend.value_or(AttentionBackend::flash) == AttentionBackend::fused;
        return asked ? without_library_attention(config) : std::string();
      });
  group
      .field("masked_softmax_fusion", config.masked_softmax_fusion,
             "attention_backend=unfused: scale, mask and softmax in one op; false: in three.")
      .on_resume(resume::free)
      .idle([&config] {
        const AttentionBackend backend = config.attention_backend.value_or(AttentionBackend::flash);
        return reason_if(backend != AttentionBackend::unfused,
                         stated("model.attention_backend", backend) + " has no softmax of its own");
      });
  group
      .field("attention_softmax_in_fp32", config.attention_softmax_in_fp32,
             "Attention's scores and probabilities are FP32 whatever the format of activations. "
             "false, with attention_backend=unfused: scaled scores, probabilities and their "
             "gradients are rounded to that format, maxima and sums stay FP32, and the softmax "
             "runs in three ops.")
      .constraint("false changes nothing under flash attention or FP32 activations")
      .on_resume(resume::other_rounding);
}

}  // namespace viaduct
