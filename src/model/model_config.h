#pragma once
// Description of a decoder-only transformer as data. Families (model/families) read it from a
// Hugging Face `config.json` and provide the tensors' names; `build_model` makes its layers. Lower
// folders do not depend on families.

#include <cstdint>
#include <string>
#include <vector>

#include "nn/rotary_table.h"
#include "ops/activation.h"
#include "ops/norm.h"

namespace viaduct {

enum class PositionKind { learned, rotary };

struct ModelConfig {
  std::string family;  // Hugging Face's model_type: "llama", "gpt2", …

  int64_t layers = 0;         // L
  int64_t hidden = 0;         // H
  int64_t feed_forward = 0;   // F
  int64_t heads = 0;          // N
  int64_t kv_heads = 0;       // K
  int64_t head_dim = 0;       // D
  int64_t vocabulary = 0;     // V, true size
  int64_t max_positions = 0;  // longest sequence

  NormKind norm = NormKind::rms_norm;
  double norm_eps = 1e-5;
  double norm_weight_offset = 0;  // 1: stored weights are w − 1 (Gemma)
  bool output_norms = false;      // norms on the branches before the residual (Gemma 2)
  bool qk_norm = false;           // RMS norm per head on q and k before rotary (Qwen 3)

  ActivationKind activation = ActivationKind::silu;
  bool gated = true;

  PositionKind positions = PositionKind::rotary;
  RotarySpec rotary;  // rotary positions only

  bool qkv_bias = false, projection_bias = false, up_bias = false, down_bias = false;
  bool tied_embeddings = false;

  std::vector<int64_t> windows;  // per layer, 0: unlimited
  double attention_scale = 0;    // of q·k
  double attention_softcap = 0;  // 0: none
  double logit_softcap = 0;
  double embedding_scale = 1;

  double embedding_dropout = 0, residual_dropout = 0, attention_dropout = 0;
  double init_std = 0.02;

  std::vector<int64_t> end_tokens;  // eos ids of the configuration, may be empty
  int64_t begin_token = -1;         // −1: none
  // How attention is computed, with the same numbers within rounding (nn/attention_method.h,
  // nn/rotary_embedding.h).
  bool flash_attention = true, masked_softmax_fusion = true, rope_fusion = true;
  bool softmax_in_fp32 = true;  // false: composed attention rounds to the activations' format

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
  std::string input_norm, qkv, q, k, v, q_norm, k_norm, projection, attention_output_norm;
  std::string mlp_norm, gate, up, down, mlp_output_norm;
  bool transposed = false;      // projections are stored [in, out]
  std::string optional_prefix;  // some checkpoints omit this prefix of every name ("transformer.")
  std::vector<std::string>
      ignored_suffixes;  // tensors that carry no weights (constant masks, tables)
};

}  // namespace viaduct
