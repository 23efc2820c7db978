#include "model/hf_fields.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/json.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

struct Ignored {
  const char* reason;
  std::vector<std::string_view> fields;
};

const std::vector<Ignored>& ignored_fields() {
  static const std::vector<Ignored> groups{
      {"where the file comes from, which code wrote it, and which class loads it (architectures is "
       "checked by its values)",
       {"_name_or_path", "_commit_hash", "architectures", "auto_map", "finetuning_task",
        "is_llama_config", "is_mistral_config", "is_qwen2_config", "model_type",
        "transformers.js_config", "transformers_version", "unsloth_fixed", "unsloth_version"}},
      {"the format of stored or loaded weights: the tensors have it themselves",
       {"dtype", "torch_dtype", "use_bfloat16"}},
      {"how matrices are stored: whoever reads them decodes them, or refuses "
       "(checkpoint/quantization_config.h)",
       {"quantization_config"}},
      {"the kernel, the number of chunks, and what is kept: the same numbers within rounding",
       {"_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
        "_flash_attn_2_enabled", "attn_implementation", "chunk_size_feed_forward", "fused_dense",
        "fused_mlp", "gradient_checkpointing", "pretraining_tp", "reorder_and_upcast_attn",
        "torchscript", "use_cache", "use_flash_attention", "use_flash_attention_2",
        "use_flash_attn", "use_reentrant_checkpointing"}},
      {"the outputs of a call, and losses of frameworks",
       {"keys_to_ignore_at_inference", "num_logits_to_keep", "output_attentions",
        "output_hidden_states", "output_past", "return_dict", "tf_legacy_loss"}},
      {"the longest text intended by the publisher: max_position_embeddings applies",
       {"max_sequence_length", "model_max_length", "tokenizer_model_max_length"}},
      {"token ids and the tokenizer (the ids that matter are read)",
       {"bad_words_ids", "bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id",
        "eos_token_ids", "is_decoder", "mask_token_id", "pad_token_id", "prefix", "sep_token_id",
        "tokenizer_class", "unk_token_id"}},
      {"defaults of generation",
       {"begin_suppress_tokens",
        "cache_implementation",
        "diversity_penalty",
        "do_sample",
        "early_stopping",
        "encoder_no_repeat_ngram_size",
        "exponential_decay_length_penalty",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "length_penalty",
        "max_length",
        "max_new_tokens",
        "min_length",
        "no_repeat_ngram_size",
        "num_beam_groups",
        "num_beams",
        "num_return_sequences",
        "output_scores",
        "remove_invalid_values",
        "repetition_penalty",
        "return_dict_in_generate",
        "suppress_tokens",
        "task_specific_params",
        "temperature",
        "top_k",
        "top_p",
        "typical_p"}},
      {"heads for other tasks, which the supported architectures do not have",
       {"_num_labels", "classifier_bias", "classifier_dropout", "id2label", "label2id",
        "num_labels", "problem_type", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj"}},
      {"GPT-2's first fine-tuning code: special tokens, counted in vocab_size",
       {"n_special", "predict_special_tokens"}},
      {"read, or drawn from once, before training", {"initializer_range"}}};
  return groups;
}

struct Neutral {
  std::string_view name;
  std::vector<Json> values;
};

// Numbers compare by value: 1 is 1.0.
const std::vector<Neutral>& neutral_fields() {
  static const std::vector<Neutral> fields{
      // Other blocks, and parts that the supported families do not have.
      {"add_cross_attention", {false}},
      {"is_encoder_decoder", {false}},
      {"tie_encoder_decoder", {false}},
      {"cross_attention_hidden_size", {}},
      {"pruned_heads", {Json::object()}},
      {"num_experts", {0, 1}},
      {"num_local_experts", {0, 1}},
      {"n_routed_experts", {0}},
      {"num_experts_per_tok", {0}},
      {"num_nextn_predict_layers", {0}},
      {"parallel_residual", {false}},
      {"use_parallel_residual", {false}},
      {"compression_config", {}},
      // Positions.
      {"rope_interleaved", {false}},
      {"partial_rotary_factor", {1}},
      {"rotary_pct", {1}},
      {"use_mrope", {false}},
      {"use_rope", {true}},
      {"interpolate_factor", {1}},
      {"alibi", {false}},
      {"use_alibi", {false}},
      {"no_rope_layers", {Json::array()}},
      // Attention.
      {"qk_layernorm", {false}},
      {"qk_norm", {false}},
      {"use_qk_norm", {false}},
      {"qk_layer_norms", {false}},
      {"clip_qkv", {}},
      {"attention_sink", {false}},
      {"full_attn_mod", {1}},
      {"use_sliding_window", {false}},
      {"sliding_window", {}},
      {"attn_logit_softcapping", {}},
      {"final_logit_softcapping", {}},
      {"use_bidirectional_attention", {false}},
      {"is_causal", {true}},
      // Biases.
      {"attention_bias", {false}},
      {"lm_head_bias", {false}},
      {"mlp_bias", {false}},
      {"use_bias", {false}},
      // Factors.
      {"use_mup", {false}},
      {"embedding_multiplier", {1}},
      {"residual_multiplier", {1}},
      {"logit_scale", {1}},
      {"logits_scaling", {1}},
      {"scale_emb", {1}},
      // Noise in training.
      {"activation_dropout", {0}},
      {"attention_probs_dropout_prob", {0}},
      {"attn_pdrop", {0}},
      {"dropout", {0}},
      {"embd_pdrop", {0}},
      {"embedding_dropout", {0}},
      {"hidden_dropout", {0}},
      {"hidden_dropout_prob", {0}},
      {"layerdrop", {0}},
      {"mlp_dropout", {0}},
      {"neftune_noise_alpha", {0}},
      {"resid_pdrop", {0}},
      {"residual_dropout", {0}}};
  return fields;
}

// A name with one of these may be part of the formula, whatever its value.
constexpr std::string_view kWords[] = {
    "act",      "alibi", "attention", "attn",   "bias", "cap",  "causal", "dim",
    "drop",     "embed", "eps",       "expert", "ffn",  "head", "hidden", "layer",
    "lora",     "mask",  "mlp",       "moe",    "mup",  "norm", "positi", "quant",
    "residual", "rope",  "rotary",    "scal",   "sink", "size", "tie",    "window"};

bool holds_a_number_or_true(const Json& value) {
  if (value.is_number()) return true;
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_structured()) return false;
  return std::any_of(value.begin(), value.end(), holds_a_number_or_true);
}

bool all_layers_attend_fully(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(),
                                         [](const Json& type) { return type == "full_attention"; });
}

}  // namespace

bool cannot_change_numbers(std::string_view name) {
  for (const Ignored& group : ignored_fields()) {
    if (std::find(group.fields.begin(), group.fields.end(), name) != group.fields.end())
      return true;
  }
  return false;
}

std::optional<NeutralField> neutral_field(std::string_view name, const Json& value) {
  if (name == "layer_types")
    return NeutralField{all_layers_attend_fully(value), "full_attention in every layer"};
  for (const Neutral& field : neutral_fields()) {
    if (field.name != name) continue;
    NeutralField result{value.is_null(), ""};
    for (const Json& neutral : field.values) {
      if (value == neutral) result.neutral = true;
      result.expected += (result.expected.empty() ? "" : " or ") + neutral.dump();
    }
    if (field.values.empty()) result.expected = "null";
    return result;
  }
  return std::nullopt;
}

bool looks_numerical(std::string_view name, const Json& value) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool word = std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view w) {
    return lower.find(w) != std::string::npos;
  });
  return word || holds_a_number_or_true(value);
}

}  // namespace viaduct
