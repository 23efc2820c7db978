#include "model/model_fields.h"

#include <algorithm>

#include "model/attention_fields.h"
#include "model/family.h"

namespace viaduct {
namespace {
constexpr std::string_view kDropout = "dropout has this rate from here on";

// Far above any model, and low enough that products do not overflow.
constexpr double kMostLayers = 1 << 14, kMostWidth = 1 << 22, kMostHeads = 1 << 16,
                 kMostTokens = 1 << 26;

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const ModelFamily& family : model_families()) names.push_back(family.model_type);
  return names;
}

/// Of fields that act with one kind of positions alone.
IdleRule other_positions(const ModelFields& config, PositionKind kind) {
  return [&config, kind] {
    const PositionKind found = config.position_embedding_type.value();
    return reason_if(found != kind, stated("model.position_embedding_type", found));
  };
}

void add_source_and_sizes(FieldGroup& group, ModelFields& config) {
  group
      .field("family", config.family,
             "Model family, which gives every `auto` below its default; auto: the one of hf_config "
             "or of the checkpoint, else llama.")
      .one_of(family_names());
  group
      .field("hf_config", config.hf_config,
             "Hugging Face folder, config.json or GGUF file that the architecture is read from (no "
             "weights); "
             "null: none.")
      .on_resume(resume::free);  // its content is in the fields
  group.field("num_layers", config.num_layers, "Transformer blocks.").range(1, kMostLayers);
  group.field("hidden_size", config.hidden_size, "H: width of the residual stream.")
      .range(1, kMostWidth)
      .on_resume(resume::other_shapes);
  group
      .field("ffn_hidden_size", config.ffn_hidden_size,
             "F: width of the feed-forward; auto: 4 · hidden_size (gated: 8/3 · hidden_size, up to "
             "a multiple of 64).")
      .range(1, kMostWidth)
      .on_resume(resume::other_shapes);
  group.field("num_attention_heads", config.num_attention_heads, "N: attention heads.")
      .range(1, kMostHeads);
  group
      .field("num_query_groups", config.num_query_groups,
             "K: key-value heads (grouped-query attention); auto: num_attention_heads.")
      .range(1, kMostHeads)
      .constraint("divides num_attention_heads");
  group
      .field("kv_channels", config.kv_channels,
             "D: size of a head; auto: hidden_size / num_attention_heads.")
      .range(1, kMostHeads);
  group.field("seq_length", config.seq_length, "S: tokens of a row in training.")
      .range(1, kMostPositions)
      .in("tokens")
      .alias("recipe.data.seq_length")
      .constraint("at most max_position_embeddings with learned positions")
      .on_resume(resume::refused(resume::other_rows));
  group
      .field("max_position_embeddings", config.max_position_embeddings,
             "Positions the model has; auto: seq_length.")
      .range(1, kMostPositions)
      .in("tokens");
  group.field("vocab_size", config.vocab_size, "V: true vocabulary; auto: the tokenizer's.")
      .range(1, kMostTokens)
      .on_resume(resume::other_shapes);
  group
      .field("make_vocab_size_divisible_by", config.make_vocab_size_divisible_by,
             "Embedding rows are padded to a multiple of this (times tp); on one rank they are not "
             "padded.")
      .range(1, kMostTokens)
      .on_resume(resume::free);
}

void add_block(FieldGroup& group, ModelFields& config) {
  group.field("normalization", config.normalization, "Kind of norm.");
  group.field("layernorm_epsilon", config.layernorm_epsilon, "Added to the variance in norms.")
      .positive();
  group.field("layernorm_zero_centered_gamma", config.layernorm_zero_centered_gamma,
              "Norms scale by 1 + weight (Gemma).");
  group
      .field("layernorm_bias", config.layernorm_bias,
             "Layer norms have a bias beside their weight; false: Cohere.")
      .constraint("RMSNorm has none")
      .idle([&config] {
        const NormKind kind = config.normalization.value();
        return reason_if(kind != NormKind::layer_norm, stated("model.normalization", kind));
      });
  group
      .field("pre_sublayer_norm", config.pre_sublayer_norm,
             "A norm on the input of attention and feed-forward; false: only on their output "
             "(OLMo 2).")
      .constraint("false needs post_sublayer_norm");
  group.field("post_sublayer_norm", config.post_sublayer_norm,
              "A second norm on the output of attention and feed-forward (Gemma 2).");
  group
      .field("parallel_block", config.parallel_block,
             "Attention and feed-forward both read the input of their block, and both are added to "
             "it (GPT-NeoX, Cohere); false: the feed-forward reads the sum with attention.")
      .constraint("true: without multi_latent_attention");
  group
      .field("parallel_block_shared_norm", config.parallel_block_shared_norm,
             "parallel_block: one norm of the input for both branches (GPT-J, Phi, Cohere); false: "
             "one for each.")
      .constraint("true needs parallel_block")
      .idle([&config] { return !config.pre_sublayer_norm.value(); },
            "model.pre_sublayer_norm = false");
  group
      .field("embedding_norm", config.embedding_norm,
             "A norm of the embeddings, before the first block (Bloom).")
      .constraint("needs a family with a name for it (bloom)");
  group
      .field("block_output_scale", config.block_output_scale,
             "The stream behind each block is multiplied by a number of the block, which comes "
             "with the weights and which nothing trains (Gemma 4).")
      .constraint(
          "needs a family with a name for it (gemma4_text); without experts, "
          "parallel_block and mtp_num_layers");
  group
      .field("activation_func", config.activation_func,
             "Activation of the feed-forward; gelu_tanh is the tanh approximation, xielu has two "
             "trained slopes a layer (Apertus).")
      .constraint("xielu: not gated, without experts");
  group.field("gated_linear_unit", config.gated_linear_unit,
              "The activation gates a second projection (SwiGLU with silu, GeGLU with gelu).");
  group
      .field("activation_func_clamp_value", config.activation_func_clamp_value,
             "Experts' gated activation: the gate is at most this, its factor at most this in "
             "magnitude (GPT-OSS: 7); null: not clamped.")
      .positive()
      .constraint("needs experts in every layer, none shared, and gated_linear_unit");
  group
      .field("glu_linear_offset", config.glu_linear_offset,
             "Experts' gated activation: added to the gate's factor (GPT-OSS: 1).")
      .constraint("as activation_func_clamp_value");
  group.field("add_bias_linear", config.add_bias_linear,
              "Biases of all projections that are not given separately.");
  group.field("add_qkv_bias", config.add_qkv_bias,
              "Biases of query, key and value; auto: add_bias_linear.");
  group.field("add_attention_output_bias", config.add_attention_output_bias,
              "Bias of the attention's output projection; auto: add_bias_linear.");
  group
      .field("add_mlp_bias", config.add_mlp_bias,
             "Biases of the feed-forward, or of each expert; auto: add_bias_linear.")
      .constraint("with experts: in every layer, none shared, expert_tensor_parallel_size=1");
  group.field("add_head_bias", config.add_head_bias,
              "A bias on the logits, before logit_multiplier (GPT-J, Phi).");
}

void add_positions(FieldGroup& group, ModelFields& config) {
  group
      .field(
          "position_embedding_type", config.position_embedding_type,
          "How positions enter. alibi: each head adds its slope times the distance of the key to "
          "its scores (Bloom, MPT); queries and keys have 8 more dims for it. relative: a learned "
          "bias of the scores, by bucket of distances (T5).")
      .constraint(
          "alibi: rows of at most 65536 tokens; no attn_logit_softcapping, softmax_type=learnable, "
          "multi_latent_attention nor fp8_dot_product_attention. relative: a family with tables "
          "for it (t5)");
  add_encoder_fields(group, config.encoder, other_positions(config, PositionKind::relative));
  group
      .field("alibi_bias_max", config.alibi_bias_max,
             "The last slope of alibi is 2 to the power of minus this (of 2^n heads; others have "
             "those of the next such number, and every second one between them).")
      .positive()
      .idle(other_positions(config, PositionKind::linear_bias));
  group
      .field("alibi_scaled", config.alibi_scaled,
             "softmax_scale multiplies the biases of alibi too, as it does the products, and "
             "slopes, positions and their products are rounded to BF16 (Falcon); false: only "
             "the products (Bloom, MPT).")
      .idle(other_positions(config, PositionKind::linear_bias));
  group.field("rotary_base", config.rotary_base, "Base of the rotary frequencies.")
      .positive()
      .idle(other_positions(config, PositionKind::rotary));
  group.field("rotary_percent", config.rotary_percent, "Part of a head that rotates.")
      .positive()
      .range(0, 1)
      .idle(other_positions(config, PositionKind::rotary));
  group
      .field(
          "rotary_interleaved", config.rotary_interleaved,
          "Rotary pairs are neighbours (2i, 2i + 1) instead of halves (i, i + R/2), the order of "
          "Hugging Face's code and weights.")
      .constraint("needs rope and apply_rope_fusion; weights keep the order they were trained in");
  group
      .field(
          "rope_scaling", config.rope_scaling,
          "Stretching of rotary positions as Hugging Face writes it: {rope_type: "
          "linear|llama3|yarn, factor: …}, {rope_type: dynamic, factor: …}, which stretches "
          "nothing in "
          "rows of up to max_position_embeddings, the longest there are, or with alpha: raises the "
          "base "
          "(Hunyuan), {rope_type: proportional, partial_rotary_factor: …}, which turns that part "
          "of "
          "the pairs (Gemma 4), or {rope_type: longrope, short_factor: […], long_factor: […]}, "
          "of which the second list is for rows longer than original_max_position_embeddings; "
          "null: "
          "none.")
      .idle(other_positions(config, PositionKind::rotary))
      .idle(
          [&config] {
            const Value& scaling = config.rope_scaling.value();
            const Value* type = scaling.find("rope_type");
            if (type == nullptr) type = scaling.find("type");
            return type != nullptr && type->is_plain("dynamic") && scaling.find("alpha") == nullptr;
          },
          "rows have at most model.max_position_embeddings tokens, and dynamic scaling begins "
          "behind them");
  group
      .field("window_rotary_base", config.window_rotary_base,
             "Base of the rotary frequencies in layers with a sliding window, which are not "
             "stretched then (Gemma 3); null: as in the other layers.")
      .positive()
      .idle(other_positions(config, PositionKind::rotary))
      .idle([&config] { return !config.window_size.value(); }, "model.window_size is null");
  group
      .field("no_rope_freq", config.no_rope_freq,
             "1 for a layer whose queries and keys are not rotated, 0 for one with rotary "
             "positions (SmolLM 3); empty: all have them.")
      .range(0, 1)
      .constraint("one entry per layer")
      .idle(other_positions(config, PositionKind::rotary));
  group
      .field("no_rope_temperature_scale", config.no_rope_temperature_scale,
             "a in 1 + a · ln(1 + ⌊(p + 1) / no_rope_temperature_length⌋), the factor on the query "
             "at position p in layers of no_rope_freq (Llama 4); null: none.")
      .positive()
      .constraint("needs an even kv_channels; not with multi_latent_attention")
      .idle(other_positions(config, PositionKind::rotary))
      .idle([&config] { return std::ranges::count(config.no_rope_freq.value(), 1) == 0; },
            "model.no_rope_freq has no layer without rotary positions");
  group
      .field("no_rope_temperature_length", config.no_rope_temperature_length,
             "Positions over which that factor stays the same.")
      .range(1, kMostPositions)
      .in("tokens")
      .idle([&config] { return !config.no_rope_temperature_scale.value(); },
            "model.no_rope_temperature_scale is null");
  group
      .field("apply_rope_fusion", config.apply_rope_fusion,
             "Rotary positions in one op, in place; false: composed of look-ups, copies, products "
             "and a sum, not in place.")
      .on_resume(resume::free)
      .idle(other_positions(config, PositionKind::rotary));
}

void add_rest(FieldGroup& group, ModelFields& config) {
  group
      .field("share_embeddings_and_output_weights", config.share_embeddings_and_output_weights,
             "The output projection is the embedding table.")
      .alias("tie_word_embeddings");
  group
      .field("embedding_multiplier", config.embedding_multiplier,
             "Factor on embeddings (Gemma: sqrt(hidden_size), rounded to the activations' format).")
      .positive();
  group
      .field("residual_multiplier", config.residual_multiplier,
             "Factor on the output of attention and feed-forward, before it is added to the "
             "residual stream (Granite).")
      .positive();
  group
      .field("logit_multiplier", config.logit_multiplier,
             "Factor on the logits, before final_logit_softcapping (Granite: 1 / logits_scaling).")
      .positive();
  group
      .field("hidden_dropout", config.hidden_dropout,
             "Dropout before each residual addition; auto: as in the model folder, else 0.")
      .from_below(0, 1)
      .on_resume(resume::said(kDropout));
  group
      .field("embedding_dropout", config.embedding_dropout,
             "Dropout on embeddings; auto: as in the model folder, else hidden_dropout.")
      .from_below(0, 1)
      .on_resume(resume::said(kDropout));
  group
      .field("attention_dropout", config.attention_dropout,
             "Dropout on attention weights; auto: as in the model folder, else 0.")
      .from_below(0, 1)
      .on_resume(resume::said(kDropout));
  group
      .field("init_method_std", config.init_method_std,
             "Standard deviation of new weights; projections into the residual stream get it "
             "divided by "
             "sqrt(2 · num_layers).")
      .range(0)
      .on_resume(resume::free);
  group
      .field(
          "mtp_num_layers", config.mtp_num_layers,
          "Layers of multi-token prediction (DeepSeek-V3): layer k reads the stream of the layer "
          "before it and the token k places further on, and predicts the token after that, with "
          "the model's embedding and head; only training runs them. null: none.")
      .range(0, kMostMultiTokenLayers)
      .constraint("needs a family with names for them (every descendant of Llama)");
  group
      .field("mtp_loss_scaling_factor", config.mtp_loss_scaling_factor,
             "Factor of the mean of the losses of mtp_num_layers in the total that is trained.")
      .range(0)
      .on_resume(
          resume::said("losses of further tokens have this weight in the gradient from here on"))
      .idle([&config] { return config.mtp_num_layers.value().value_or(0) == 0; },
            "model.mtp_num_layers is null");
  group
      .field("calculate_per_token_loss", config.calculate_per_token_loss,
             "The loss is the mean over all scored tokens of the global batch; false: Megatron's "
             "mean of micro-batch means.")
      .on_resume(resume::said("gradients are averaged differently from here on"));
}

}  // namespace

FieldGroup model_fields(ModelFields& config) {
  FieldGroup group("model", "Architecture and its parallel layout.");
  group.on_resume(resume::other_model);
  add_source_and_sizes(group, config);
  add_block(group, config);
  add_moe_fields(group, config.moe);
  group
      .field("moe_router_linear_bias", config.moe_router_linear_bias,
             "A trained bias on the router's logits (GPT-OSS).")
      .constraint("needs num_moe_experts");
  add_attention_fields(group, config);
  add_positions(group, config);
  add_vision_fields(group, config.vision);
  add_rest(group, config);
  return group;
}

}  // namespace viaduct
