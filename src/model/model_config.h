#pragma once
// Description of a transformer as data: a decoder, or an encoder and a decoder. Families
// (model/families) read it from a Hugging Face `config.json` and provide the tensors' names;
// `build_model` makes its layers. Lower folders do not depend on families.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/encoder_config.h"
#include "model/vision_config.h"
#include "nn/linear_bias.h"
#include "nn/moe/moe_config.h"
#include "nn/rotary_table.h"
#include "ops/activation.h"
#include "ops/norm.h"

namespace viaduct {

enum class PositionKind { rotary, learned, linear_bias, relative };
constexpr auto choice_names(PositionKind) {
  return std::to_array<std::string_view>({"rope", "learned_absolute", "alibi", "relative"});
}

/// Sizes of multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434, section 2.1): keys and
/// values of all heads come from one compressed vector of a token, queries may.
struct LatentSizes {
  int64_t q_rank = 0;      // of compressed queries; 0: queries come from the stream directly
  int64_t kv_rank = 0;     // of compressed keys and values; 0: attention is not latent
  int64_t plain_dim = 0;   // of a head of queries and keys, the part without positions
  int64_t rotary_dim = 0;  // … with rotary positions; shared by all heads of keys
  int64_t value_dim = 0;   // of a head of values
  /// Of the norms on the compressed vectors; 0: that of the other norms.
  double norm_eps = 0;

  bool any() const { return kv_rank > 0; }
  bool operator==(const LatentSizes&) const = default;
};

/// How attention in layers without a window differs from that in layers with one (Gemma 4).
struct FullAttention {
  int64_t head_dim = 0, kv_heads = 0;  // 0: as in the others
  bool values_from_keys = false;       // values are the keys before their norm and rotation

  bool any() const { return head_dim > 0 || kv_heads > 0 || values_from_keys; }
  bool operator==(const FullAttention&) const = default;
};

/// Far above any model: bounds the work that a damaged config.json can cause.
inline constexpr int64_t kMostMultiTokenLayers = 1024;

struct ModelConfig {
  std::string family;  // Hugging Face's model_type: "llama", "gpt2", …

  int64_t layers = 0;        // L; of a model with an encoder, those of its decoder
  int64_t hidden = 0;        // H
  int64_t feed_forward = 0;  // F
  int64_t heads = 0;         // N
  int64_t kv_heads = 0;      // K
  int64_t head_dim = 0;      // D; of latent attention plain_dim + rotary_dim
  FullAttention full;
  int64_t vocabulary = 0;     // V, true size
  int64_t max_positions = 0;  // longest sequence

  NormKind norm = NormKind::rms_norm;
  double norm_eps = 1e-5;
  double norm_weight_offset = 0;  // 1: stored weights are w − 1 (Gemma)
  bool norm_bias = true;          // of layer norms; false: Cohere
  bool embedding_norm = false;    // of the embeddings, before the first block (Bloom)
  bool input_norms = true;        // norms before attention and feed-forward; false: OLMo 2
  bool output_norms = false;      // norms on the branches before the residual (Gemma 2)
  bool parallel_block = false;    // both branches begin at the block's input (nn/parallel_block.h)
  bool shared_norm = false;       // of a parallel block: one norm for both branches (GPT-J)
  /// RMS norms on q and k, before rotary or after it, of each head (Qwen 3) or over all heads
  /// (OLMoE). Latent attention: on the compressed vectors.
  bool qk_norm = false;
  bool qk_norm_per_head = true;
  bool qk_norm_after_rotary = false;  // Hunyuan
  /// Each head has weights of its own, and the norm is of the model's kind, without a bias
  /// (StableLM 2, Command R+).
  bool qk_norm_own_weights = false;
  /// Norms without weights on the heads of q and k, in layers with rotary positions (Llama 4, which
  /// has them after the rotation: that keeps lengths, and so it is the same).
  bool qk_l2_norm = false;
  bool v_l2_norm = false;  // the same on the heads of values, in every layer (Gemma 4)
  LatentSizes latent;
  /// A logit of each head takes part in the softmax without a value (GPT-OSS;
  /// ops/attention_sink.h).
  bool attention_sinks = false;

  ActivationKind activation = ActivationKind::silu;
  bool gated = true;
  bool xielu = false;            // in place of `activation`, not gated (ops/xielu.h; Apertus)
  double activation_clamp = 0;   // ops/activation.h; 0: none
  double activation_offset = 0;  // added to `up`
  /// Layers of multi-token prediction after the others, one for each further token, each like the
  /// last of them (nn/multi_token.h); and the factor of the mean of their losses in the total.
  int64_t mtp_layers = 0;
  double mtp_loss_scale = 0.1;
  MoeConfig moe;             // experts in place of the feed-forward of some layers
  bool router_bias = false;  // of the router's product

  EncoderConfig encoder;  // none: the model is a decoder
  VisionConfig vision;    // none: the model reads no images

  PositionKind positions = PositionKind::rotary;
  RotarySpec rotary;                // rotary positions only
  double linear_bias_exponent = 8;  // of the steepest slopes of linear biases (nn/linear_bias.h)
  bool linear_bias_scaled = false;  // … which attention_scale multiplies with the scores (Falcon)
  RelativePositions relative;       // relative positions only
  /// Layers with a window have this base and no scaling (Gemma 3); 0: they rotate like the others.
  double window_rotary_base = 0;
  std::vector<int64_t> no_rope;  // per layer, 1: its heads are not rotated (SmolLM 3); empty: none
  AttentionTemperature no_rope_temperature;  // of those layers

  bool qkv_bias = false, projection_bias = false, up_bias = false, down_bias = false;
  bool head_bias = false;  // on the logits (GPT-J, Phi)
  bool tied_embeddings = false;

  std::vector<int64_t> windows;  // per layer, 0: unlimited
  /// Per layer, tokens of the chunks that attention is cut into, the same number in all that have
  /// chunks (Llama 4); 0: it is not cut. Empty: no layer has chunks.
  std::vector<int64_t> chunks;
  double attention_scale = 0;        // of q·k
  AttentionTemperature temperature;  // Ministral 3; rotary positions in whole heads only
  double attention_softcap = 0;      // 0: none
  double logit_softcap = 0;
  double embedding_scale = 1;
  double residual_scale = 1;  // of each branch, before it is added to the stream (Granite)
  bool output_scale = false;  // a number of each block multiplies the stream behind it (Gemma 4)
  double logit_scale = 1;     // of the logits, before their soft-cap (Granite)

  double embedding_dropout = 0, residual_dropout = 0, attention_dropout = 0;
  double init_std = 0.02;

  /// The layer whose kind (window, experts) block `block` has: those of multi-token prediction are
  /// numbered after the last one and are like it.
  int64_t kind_of(int64_t block) const { return block < layers ? block : layers - 1; }
  /// The same model without what only training uses.
  ModelConfig without_training_layers() const {
    ModelConfig model = *this;
    model.mtp_layers = 0;
    return model;
  }
  /// Whether `full` is about this block.
  bool full_attention(int64_t block) const { return full.any() && window_of(block) == 0; }
  /// D of this block.
  int64_t head_dim_of(int64_t block) const {
    return full_attention(block) && full.head_dim > 0 ? full.head_dim : head_dim;
  }
  /// K of this block.
  int64_t kv_heads_of(int64_t block) const {
    return full_attention(block) && full.kv_heads > 0 ? full.kv_heads : kv_heads;
  }
  bool values_from_keys(int64_t block) const {
    return full_attention(block) && full.values_from_keys;
  }
  /// D of the layers that have the rotary positions of `rotary`, where those with a window have
  /// others.
  int64_t rotary_head_dim() const { return full.head_dim > 0 ? full.head_dim : head_dim; }
  /// Rotated dims of a head in layers with a window, where their positions have a base of their
  /// own.
  int64_t window_rotary_width() const {
    return rotary_head_dim() == head_dim ? rotary.width
                                         : head_dim * rotary.width / rotary_head_dim();
  }
  /// Dv: size of a head of values.
  int64_t value_dim(int64_t block) const {
    return latent.any() ? latent.value_dim : head_dim_of(block);
  }
  /// Size of a head of queries and keys as attention multiplies them.
  int64_t key_dim() const {
    return head_dim + (positions == PositionKind::linear_bias ? kLinearBiasDims : 0);
  }
  bool rotates(int64_t block) const {
    return positions == PositionKind::rotary &&
           (no_rope.empty() || no_rope[static_cast<size_t>(kind_of(block))] == 0);
  }
  /// 0: unlimited.
  int64_t window_of(int64_t block) const {
    return windows.empty() ? 0 : windows[static_cast<size_t>(kind_of(block))];
  }

  int64_t chunk_of(int64_t block) const {
    return chunks.empty() ? 0 : chunks[static_cast<size_t>(kind_of(block))];
  }
  /// Of those layers that have chunks; 0: none has.
  int64_t attention_chunk() const {
    return chunks.empty() ? 0 : *std::max_element(chunks.begin(), chunks.end());
  }

  std::vector<int64_t> end_tokens;  // eos ids of the configuration, may be empty
  int64_t begin_token = -1;         // −1: none
  // How attention is computed, with the same numbers within rounding (nn/attention_method.h,
  // nn/rotary_embedding.h).
  bool flash_attention = true, masked_softmax_fusion = true, rope_fusion = true;
  bool library_attention = false;  // flash attention by the vendor's library
  bool softmax_in_fp32 = true;     // false: composed attention rounds to the activations' format

  // Lookups of this token do not train its row, as in Hugging Face; −1: none.
  int64_t padding_token = -1;

  // Notes on unknown content of the source file, for messages. No effect on the model.
  std::vector<std::string> notes;
};

/// ConfigError listing every inconsistent size (heads that key-value heads do not divide, no
/// layers, …).
void check_model_config(const ModelConfig& config);

/// Names of the tensors of a family in Hugging Face's checkpoints, without ".weight" / ".bias";
/// "{}" is the layer number. Empty: the family has none.
struct TensorNames {
  std::string token_embedding, position_embedding, final_norm, head;
  /// Names under which some folders have the token table once more; they must equal it (T5).
  std::vector<std::string> token_embedding_copies;
  int64_t rows_before_positions = 0;  // of the position table; no token looks them up (OPT)
  std::string embedding_norm;
  std::string input_norm, qkv, q, k, v, q_norm, k_norm, projection, attention_output_norm, sinks;
  /// qkv has the rows of a key-value head and of its queries together: queries, key, value, and so
  /// on (GPT-NeoX, Falcon); else all queries, all keys, all values.
  bool qkv_by_group = false;
  // Norms of heads with weights of their own: one tensor, or, with a second "{}", one a head.
  std::string q_head_norm, k_head_norm;
  // Latent attention: matrices to and from the compressed vectors, and the norms on them.
  std::string q_down, q_down_norm, q_up, kv_down, kv_down_norm, kv_up;
  std::string mlp_norm, gate, up, down, mlp_output_norm;
  std::string output_scale;      // of a block, the whole name (Gemma 4)
  std::string alpha_p, alpha_n;  // xIELU's raw slopes, whole names
  // The norms of a parallel block with two of them, where their names differ (Falcon).
  std::string parallel_input_norm, parallel_mlp_norm;
  std::string plain_up;  // up of a feed-forward without gate, where it has another name (T5)
  // Cross attention of a decoder's blocks to the encoder's output.
  std::string cross_norm, cross_q, cross_k, cross_v, cross_projection;
  std::string relative_table;  // of the bias by distance, which the layers share
  std::string gate_up;  // gate and up of a gated feed-forward in one tensor, gate first (Phi 3)
  // Multi-token prediction: norms of stream and embedding, projection of both, norm before the
  // head.
  std::string mtp_hidden_norm, mtp_embedding_norm, mtp_projection, mtp_head_norm;
  // Copies of the token embedding and the head that checkpoints have in such a layer.
  std::string mtp_token_embedding, mtp_head;
  std::string router, expert_gate, expert_up, expert_down;  // the second "{}" is the expert
  bool expert_halves = false;  // where expert_up is gate and up: all of gate, then all of up
  /// The same experts as the family's own files have them: all of a layer in one tensor, gate above
  /// up [E, 2 F, H], and down [E, H, F] (Granite); empty: one by one. checkpoint/own_experts.h.
  std::string experts_gate_up, experts_down;
  /// Of a layer in transformers 5, as PEFT's files call them where the family's own files have
  /// other names: the module of all experts, and the router's parameter. Empty: what expert_up has
  /// before the expert, and router + ".weight". model/router_adapters.h.
  std::string peft_experts, peft_router;
  std::string
      load_bias;  // of the router, the whole name; empty: router + ".e_score_correction_bias"
  bool load_bias_row = false;  // … which these files have as [1, E] (ERNIE 4.5)
  // Of the expert that all tokens use; the router is the gate of its result.
  std::string shared_gate, shared_up, shared_down, shared_router;
  /// Numbers that checkpoints hold beside the weights, whole names; always of these values.
  std::vector<std::pair<std::string, double>> constants;
  bool transposed = false;      // projections are stored [in, out]
  std::string optional_prefix;  // some checkpoints omit this prefix of every name ("transformer.")
  std::vector<std::string>
      ignored_suffixes;  // tensors that carry no weights (constant masks, tables)
  /// Of layers that some folders have and that are not read, as a note says (ERNIE 4.5's for
  /// multi-token prediction).
  std::vector<std::string> unread_prefixes;
};

}  // namespace viaduct
