#include "model/model_from_fields.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/family.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

/// The config.json of a small descendant of Llama, with `fields` of its family.
std::string small(const std::string& family, int layers, const std::string& fields) {
  return R"({"model_type": ")" + family + R"(", "num_hidden_layers": )" + std::to_string(layers) +
         R"(, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 128, )" +
         fields + "}";
}

/// One for each family, with fields that differ from its defaults.
const std::map<std::string, std::string> kConfigs{
    {"apertus", small("apertus", 2, R"("rope_theta": 5000.0, "rope_scaling": {"rope_type": "llama3",
         "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 32})")},
    {"arcee", small("arcee", 4, R"("mlp_bias": true)")},
    {"bloom",
     R"({"model_type": "bloom", "n_layer": 2, "hidden_size": 64, "n_head": 4, "vocab_size": 100,
        "seq_length": 32, "hidden_dropout": 0.2})"},
    {"cohere", small("cohere", 4, R"("rope_theta": 8000000.0, "logit_scale": 0.25,
         "attention_bias": true, "use_qk_norm": true)")},
    {"cohere2", small("cohere2", 4, R"("sliding_window": 16, "sliding_window_pattern": 3)")},
    {"cwm", small("cwm", 5, R"("head_dim": 20, "sliding_window": 16, "mlp_bias": true,
         "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0})")},
    {"deepseek_v2",
     R"({"model_type": "deepseek_v2", "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 128, "q_lora_rank": 24,
        "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 6,
        "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
        "routed_scaling_factor": 2.5, "rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 0.7,
        "mscale_all_dim": 0.8, "original_max_position_embeddings": 32}})"},
    {"deepseek_v3",
     R"({"model_type": "deepseek_v3", "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 128, "q_lora_rank": 24,
        "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 6,
        "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
        "n_group": 2, "topk_group": 1, "num_nextn_predict_layers": 0, "routed_scaling_factor": 2.5})"},
    {"dots1", small("dots1", 4, R"("n_routed_experts": 6, "n_shared_experts": 2,
         "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
         "norm_topk_prob": true, "sliding_window": 16, "max_window_layers": 2,
         "routed_scaling_factor": 2.5)")},
    {"ernie4_5", small("ernie4_5", 4, R"("head_dim": 20, "use_bias": true)")},
    {"ernie4_5_moe", small("ernie4_5_moe", 6, R"("moe_num_experts": 6, "moe_k": 2,
         "moe_intermediate_size": 24, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
         "moe_layer_end_index": 4, "moe_layer_interval": 2)")},
    {"exaone4", small("exaone4", 4, R"("sliding_window": 16)")},
    {"falcon",
     R"({"model_type": "falcon", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4,
        "num_kv_heads": 2, "vocab_size": 100, "new_decoder_architecture": true,
        "ffn_hidden_size": 96})"},
    {"gemma", small("gemma", 2, R"("head_dim": 32)")},
    {"gemma2", small("gemma2", 4, R"("head_dim": 32, "sliding_window": 16,
         "query_pre_attn_scalar": 48)")},
    {"gemma3_text", small("gemma3_text", 4, R"("head_dim": 32, "sliding_window": 16,
         "query_pre_attn_scalar": 48, "rope_local_base_freq": 500.0,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0})")},
    {"gemma4_text", small("gemma4_text", 4, R"("head_dim": 16, "global_head_dim": 32,
         "hidden_size_per_layer_input": 0, "attention_k_eq_v": true, "sliding_window": 16,
         "num_global_key_value_heads": 1, "layer_types": ["sliding_attention", "full_attention",
         "sliding_attention", "full_attention"])")},
    {"glm", small("glm", 4, R"("head_dim": 16)")},
    {"glm4", small("glm4", 4, R"("head_dim": 32, "attention_bias": false)")},
    {"glm4_moe", small("glm4_moe", 4, R"("head_dim": 32, "n_routed_experts": 6,
         "num_experts_per_tok": 2, "moe_intermediate_size": 24, "use_qk_norm": true,
         "attention_bias": true, "n_group": 2, "topk_group": 1, "partial_rotary_factor": 0.25,
         "routed_scaling_factor": 2.5)")},
    {"glm4_moe_lite",
     R"({"model_type": "glm4_moe_lite", "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 128, "q_lora_rank": 24,
        "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 6,
        "num_experts_per_tok": 2, "moe_intermediate_size": 24,
        "mlp_layer_types": ["dense", "dense", "sparse"]})"},
    {"gpt2",
     R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100, "n_positions": 32,
        "embd_pdrop": 0.2})"},
    {"gpt_bigcode",
     R"({"model_type": "gpt_bigcode", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100,
        "n_positions": 32, "embd_pdrop": 0.2})"},
    {"gpt_neo",
     R"({"model_type": "gpt_neo", "num_layers": 3, "hidden_size": 64, "num_heads": 4, "vocab_size": 100,
        "max_position_embeddings": 32, "window_size": 16, "resid_dropout": 0.2,
        "attention_types": [[["global"], 1], [["local"], 2]]})"},
    {"gpt_neox",
     R"({"model_type": "gpt_neox", "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 128,
        "rotary_pct": 0.5, "rotary_emb_base": 500, "attention_bias": false,
        "hidden_dropout": 0.1})"},
    {"gpt_oss", small("gpt_oss", 3, R"("head_dim": 20, "num_local_experts": 6,
         "num_experts_per_tok": 2, "sliding_window": 16)")},
    {"gptj",
     R"({"model_type": "gptj", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100,
        "n_positions": 32, "rotary_dim": 8, "embd_pdrop": 0.2})"},
    {"granite", small("granite", 4, R"("embedding_multiplier": 12.0, "attention_multiplier": 0.3,
         "residual_multiplier": 0.22, "logits_scaling": 6.0)")},
    {"granitemoe", small("granitemoe", 2, R"("embedding_multiplier": 12.0,
         "attention_multiplier": 0.3, "residual_multiplier": 0.22, "logits_scaling": 6.0,
         "num_local_experts": 5, "num_experts_per_tok": 3)")},
    {"granitemoeshared", small("granitemoeshared", 2, R"("embedding_multiplier": 12.0,
         "attention_multiplier": 0.3, "residual_multiplier": 0.22, "logits_scaling": 6.0,
         "num_local_experts": 5, "num_experts_per_tok": 3, "shared_intermediate_size": 40)")},
    {"helium", small("helium", 2, R"("head_dim": 16, "mlp_bias": true)")},
    {"hunyuan_v1_dense", small("hunyuan_v1_dense", 2, R"("head_dim": 20, "rope_scaling":
         {"type": "dynamic", "alpha": 1000.0, "factor": 1.0})")},
    {"hunyuan_v1_moe", small("hunyuan_v1_moe", 2, R"("head_dim": 20, "num_experts": 5,
         "moe_topk": 3, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0})")},
    {"kimi_k2",
     R"({"model_type": "kimi_k2", "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 128, "q_lora_rank": null,
        "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 6,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
        "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0, "rms_norm_eps": 1e-5})"},
    {"llama", small("llama", 2, R"("attention_bias": true, "mlp_bias": false,
         "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
         "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})")},
    {"llama4_text", small("llama4_text", 4, R"("head_dim": 20, "intermediate_size_mlp": 40,
         "num_local_experts": 6, "interleave_moe_layer_step": 2, "attention_chunk_size": 16,
         "no_rope_layers": [1, 0, 1, 1], "attn_scale": 0.3, "floor_scale": 32)")},
    {"minimax_m2", small("minimax_m2", 2, R"("head_dim": 32, "rotary_dim": 16,
         "num_local_experts": 5, "num_experts_per_tok": 3)")},
    {"ministral", small("ministral", 4, R"("head_dim": 20, "sliding_window": 16,
         "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
         "full_attention"])")},
    {"ministral3",
     small("ministral3", 2, R"("head_dim": 20, "rope_parameters": {"rope_type": "yarn",
         "factor": 4.0, "original_max_position_embeddings": 32, "llama_4_scaling_beta": 0.2,
         "rope_theta": 5000.0})")},
    {"mistral", small("mistral", 2, R"("sliding_window": 16)")},
    {"mixtral", small("mixtral", 2, R"("num_local_experts": 5, "num_experts_per_tok": 3)")},
    {"mpt", R"({"model_type": "mpt", "n_layers": 2, "d_model": 64, "n_heads": 4, "vocab_size": 100,
        "max_seq_len": 32, "attn_config": {"softmax_scale": 0.3, "attn_pdrop": 0.1}})"},
    {"nemotron", small("nemotron", 2, R"("mlp_bias": true, "norm_eps": 1e-4)")},
    {"olmo", small("olmo", 2, R"("attention_bias": true)")},
    {"olmo2", small("olmo2", 4, R"("attention_bias": true)")},
    {"olmo3", small("olmo3", 4, R"("sliding_window": 16, "rope_scaling": {"rope_type": "yarn",
         "factor": 4.0, "original_max_position_embeddings": 32})")},
    {"olmoe", small("olmoe", 2, R"("num_experts": 6, "num_experts_per_tok": 2)")},
    {"opt",
     R"({"model_type": "opt", "num_hidden_layers": 2, "hidden_size": 64, "ffn_dim": 96,
        "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 32,
        "word_embed_proj_dim": 64, "dropout": 0.2, "activation_function": "gelu"})"},
    {"phi", small("phi", 4, R"("partial_rotary_factor": 0.25, "resid_pdrop": 0.1)")},
    {"phi3", small("phi3", 4, R"("partial_rotary_factor": 0.75, "sliding_window": 16,
         "resid_pdrop": 0.1)")},
    {"phimoe", small("phimoe", 4, R"("num_local_experts": 5, "router_jitter_noise": 0.25,
         "lm_head_bias": true, "attention_bias": true, "sliding_window": 16)")},
    {"qwen2", small("qwen2", 4, R"("use_sliding_window": true, "sliding_window": 16,
         "max_window_layers": 2)")},
    {"qwen2_moe", small("qwen2_moe", 2, R"("num_experts": 6, "num_experts_per_tok": 2,
         "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40)")},
    {"qwen3", small("qwen3", 2, R"("head_dim": 32)")},
    {"qwen3_moe", small("qwen3_moe", 4, R"("num_experts": 6, "num_experts_per_tok": 2,
         "moe_intermediate_size": 24, "norm_topk_prob": false, "decoder_sparse_step": 2,
         "mlp_only_layers": [3])")},
    {"seed_oss", small("seed_oss", 4, R"("head_dim": 32, "residual_dropout": 0.2)")},
    {"smollm3", small("smollm3", 4, R"("no_rope_layers": [1, 0, 1, 1], "use_sliding_window": true,
         "sliding_window": 16)")},
    {"solar_open", small("solar_open", 2, R"("head_dim": 20, "n_routed_experts": 6,
         "num_experts_per_tok": 2, "moe_intermediate_size": 24, "attention_bias": true,
         "n_group": 2, "topk_group": 1, "routed_scaling_factor": 2.5)")},
    {"stablelm", small("stablelm", 4, R"("use_qkv_bias": true, "use_parallel_residual": true,
         "qk_layernorm": true)")},
    {"starcoder2", small("starcoder2", 4, R"("sliding_window": 16, "embedding_dropout": 0.1,
         "residual_dropout": 0.2)")},
    {"t5",
     R"({"model_type": "t5", "num_layers": 3, "num_decoder_layers": 2, "d_model": 64, "d_kv": 20, "d_ff": 96,
        "num_heads": 4, "vocab_size": 100, "feed_forward_proj": "gated-silu", "dropout_rate": 0.2,
        "relative_attention_num_buckets": 16, "relative_attention_max_distance": 40,
        "tie_word_embeddings": false})"},
    {"vaultgemma", small("vaultgemma", 4, R"("head_dim": 32, "sliding_window": 16)")}};

TEST(ModelFromFields, ArchitecturesGoThroughFieldsUnchanged) {
  EXPECT_EQ(kConfigs.size(), model_families().size());
  for (const auto& [family, text] : kConfigs) {
    const ModelConfig model = read_hf_config(text, "config.json");
    ModelFields fields;
    take_architecture(fields, model);
    fields.resolve();
    EXPECT_TRUE(fields.missing().empty());
    const ModelConfig again = to_model_config(fields, model);
    EXPECT_EQ(write_hf_config(again), write_hf_config(model)) << text;
    const std::vector<int64_t> none(static_cast<size_t>(model.layers), 0);
    EXPECT_EQ(again.windows, model.windows.empty() ? none : model.windows);
    EXPECT_EQ(again.attention_scale, model.attention_scale);
    EXPECT_EQ(again.embedding_scale, model.embedding_scale);
    EXPECT_EQ(again.norm_weight_offset, model.norm_weight_offset);
    EXPECT_EQ(again.input_norms, model.input_norms);
    EXPECT_EQ(again.output_norms, model.output_norms);
    EXPECT_EQ(again.residual_scale, model.residual_scale);
    EXPECT_EQ(again.logit_scale, model.logit_scale);
    EXPECT_EQ(again.no_rope, model.no_rope);
    EXPECT_EQ(again.no_rope_temperature, model.no_rope_temperature);
    EXPECT_EQ(again.chunks, model.chunks);
    EXPECT_EQ(again.positions, model.positions);
    EXPECT_EQ(again.linear_bias_exponent, model.linear_bias_exponent);
    EXPECT_EQ(again.linear_bias_scaled, model.linear_bias_scaled);
    EXPECT_EQ(again.moe.routing.margin, model.moe.routing.margin);
    EXPECT_EQ(again.embedding_norm, model.embedding_norm);
    EXPECT_EQ(again.qk_l2_norm, model.qk_l2_norm);
    EXPECT_EQ(again.v_l2_norm, model.v_l2_norm);
    EXPECT_EQ(again.full, model.full);
    EXPECT_EQ(again.output_scale, model.output_scale);
    EXPECT_EQ(again.window_rotary_base, model.window_rotary_base);
    EXPECT_EQ(again.qk_norm, model.qk_norm);
    EXPECT_EQ(again.qk_norm_per_head, model.qk_norm_per_head);
    EXPECT_EQ(again.xielu, model.xielu);
    EXPECT_EQ(again.qk_norm_after_rotary, model.qk_norm_after_rotary);
    EXPECT_EQ(again.temperature, model.temperature);
    EXPECT_EQ(again.latent, model.latent);
    EXPECT_EQ(again.attention_sinks, model.attention_sinks);
    EXPECT_EQ(again.router_bias, model.router_bias);
    EXPECT_EQ(again.activation_clamp, model.activation_clamp);
    EXPECT_EQ(again.activation_offset, model.activation_offset);
    EXPECT_TRUE(again.moe == model.moe);
    EXPECT_EQ(again.qkv_bias, model.qkv_bias);
    EXPECT_EQ(again.down_bias, model.down_bias);
    EXPECT_EQ(again.rotary.width, model.rotary.width);
    EXPECT_EQ(again.encoder.layers, model.encoder.layers);
    EXPECT_EQ(again.relative, model.relative);
  }
}

TEST(ModelFromFields, ExpertsOfAConfigJson) {
  const ModelConfig qwen = read_hf_config(kConfigs.at("qwen3_moe"), "config.json");
  EXPECT_EQ(qwen.moe.experts, 6);
  EXPECT_EQ(qwen.moe.feed_forward, 24);
  EXPECT_EQ(qwen.moe.routing.topk, 2);
  EXPECT_TRUE(qwen.moe.routing.pre_softmax);
  EXPECT_EQ(qwen.moe.layers, (std::vector<int64_t>{0, 1, 0, 0}));
  EXPECT_TRUE(qwen.qk_norm);
  const ModelConfig mixtral = read_hf_config(kConfigs.at("mixtral"), "config.json");
  EXPECT_EQ(mixtral.moe.feed_forward, 96);
  EXPECT_FALSE(mixtral.moe.routing.pre_softmax);
  EXPECT_EQ(mixtral.moe.layers, (std::vector<int64_t>{1, 1}));
}

/// A model given by fields has no config.json that a message could name.
TEST(ModelFromFields, TooLargeASharedExpertIsNamedByItsField) {
  ModelConfig model = read_hf_config(kConfigs.at("deepseek_v2"), "config.json");
  model.moe.shared_feed_forward = 6 * 24;
  EXPECT_NO_THROW(write_hf_config(model));
  model.moe.shared_feed_forward = 7 * 24;
  try {
    write_hf_config(model);
    FAIL() << "expected an error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()),
              "model.moe_shared_expert_intermediate_size: family deepseek_v2 has at most "
              "num_moe_experts · moe_ffn_hidden_size = 6 · 24, found 168");
  }
}

TEST(ModelFromFields, LayersWithExpertsByFrequencyOrList) {
  MoeFields fields;
  fields.num_moe_experts = std::optional<int64_t>(4);
  fields.moe_layer_freq = OneOrList<int64_t>(3);
  fields.resolve();
  EXPECT_EQ(to_moe_config(fields, 5, 8).layers, (std::vector<int64_t>{1, 0, 0, 1, 0}));
  fields.moe_layer_freq = OneOrList<int64_t>(std::vector<int64_t>{0, 1, 1});
  EXPECT_EQ(to_moe_config(fields, 3, 8).layers, (std::vector<int64_t>{0, 1, 1}));
}

/// The problems of a mixture of 8 experts, one on a line.
std::string moe_problems(MoeConfig moe) {
  moe.experts = 8, moe.feed_forward = 4;
  Problems problems;
  check_moe_config(moe, 2, problems);
  std::string text;
  for (const std::string& problem : problems.all()) text += problem + "\n";
  return text;
}

std::string moe_problems(const RoutingRule& rule, std::vector<int64_t> layers = {1, 1}) {
  MoeConfig moe;
  moe.routing = rule, moe.layers = std::move(layers);
  return moe_problems(moe);
}

TEST(ModelFromFields, RulesOfRoutingNameBothNumbers) {
  RoutingRule good, many, one, groups, half, pre;
  many.topk = 9;
  one.topk = 1;
  groups.groups = 3, groups.group_topk = 1;
  half.groups = 4;
  pre.score = ScoreFunction::sigmoid, pre.pre_softmax = true;
  EXPECT_EQ(moe_problems(good), "");
  EXPECT_NE(moe_problems(many).find("moe_router_topk: 9 of num_moe_experts = 8"),
            std::string::npos);
  EXPECT_NE(moe_problems(one).find("moe_router_pre_softmax: false with moe_router_topk = 1"),
            std::string::npos);
  EXPECT_NE(moe_problems(groups).find("3 does not divide num_moe_experts = 8; nearest: 2 or 4"),
            std::string::npos);
  EXPECT_NE(moe_problems(half).find("need each other, found 4 and null"), std::string::npos);
  EXPECT_NE(moe_problems(pre).find("true needs moe_router_score_function=softmax"),
            std::string::npos);
  EXPECT_NE(moe_problems(good, {1}).find("moe_layer_freq: 1 entry for 2 layers"),
            std::string::npos);
  RoutingRule apart;
  apart.topk = 4, apart.groups = 4, apart.group_topk = 3;
  EXPECT_NE(moe_problems(apart).find("moe_router_group_topk: 3 of 4 groups of 2 experts"),
            std::string::npos);
  apart.group_best = 2;  // any number of groups is valid
  EXPECT_EQ(moe_problems(apart), "");
  apart.group_best = 3;
  EXPECT_NE(moe_problems(apart).find("moe_router_group_score_topk: 3 of the 2 experts of a group"),
            std::string::npos);
  apart.groups = apart.group_topk = 0;
  EXPECT_NE(moe_problems(apart).find("moe_router_group_score_topk: 3 needs moe_router_num_groups"),
            std::string::npos);
}

TEST(ModelFromFields, RoutersHaveWhatTheyNeed) {
  MoeConfig moe;
  moe.load_bias = true;
  EXPECT_EQ(moe_problems(moe), "");
  moe.routing.groups = 4, moe.routing.group_topk = 2;
  EXPECT_NE(moe_problems(moe).find("moe_router_num_groups: 4 with moe_router_enable_expert_bias"),
            std::string::npos);
  moe.routing.groups = moe.routing.group_topk = 0;
  moe.routing.score = ScoreFunction::sqrt_softplus, moe.routing.normalize = false;
  EXPECT_EQ(moe_problems(moe), "");
  moe.routing.score = ScoreFunction::softmax, moe.load_bias = false;
  EXPECT_NE(moe_problems(moe).find("moe_router_norm_topk_prob: false needs"), std::string::npos);
  moe.routing.normalize = true, moe.pad_to_capacity = true;
  EXPECT_NE(moe_problems(moe).find("moe_pad_expert_input_to_capacity: true needs"),
            std::string::npos);
  moe.capacity_factor = 1.25;
  EXPECT_EQ(moe_problems(moe), "");
  moe.experts = 8;
  EXPECT_EQ(moe.capacity(10), 4);  // of 10 tokens · 2 choices / 8 experts · 1.25, rounded up
  EXPECT_EQ(moe.rank_capacity(10, 4), 0) << "no limit of a rank";
  EXPECT_FALSE([&] {
    MoeConfig none = moe;
    none.capacity_factor = 0;
    return none.drops();
  }());
  MoeConfig rank = moe;
  rank.rank_capacity_factor = 1.5;
  EXPECT_NE(moe_problems(rank).find("moe_expert_rank_capacity_factor: 1.5 with "
                                    "moe_pad_expert_input_to_capacity = true"),
            std::string::npos);
  rank.pad_to_capacity = false, rank.capacity_factor = 0;
  EXPECT_EQ(moe_problems(rank), "");
  EXPECT_TRUE(rank.drops());
  EXPECT_EQ(rank.rank_capacity(10, 4), 8);  // of 10 tokens · 2 choices / 4 ranks · 1.5, rounded up
  EXPECT_EQ(rank.rank_capacity(10, 1), 30);
  moe.capacity_factor = 1e30;
  EXPECT_GT(moe.capacity(10), 1'000'000) << "no limit, although it has no integer";
}

TEST(ModelFromFields, AChoiceByScaledLogitsHasItsOwnWeights) {
  MoeConfig moe;
  moe.sinkhorn = moe.routing.choose_logits = true;
  EXPECT_NE(moe_problems(moe).find("moe_router_pre_softmax: false with "
                                   "moe_router_load_balancing_type=sinkhorn"),
            std::string::npos);
  moe.routing.pre_softmax = true;
  EXPECT_EQ(moe_problems(moe), "");
  moe.routing.topk = 1;
  EXPECT_NE(moe_problems(moe).find("is its sigmoid; expected sigmoid"), std::string::npos);
  moe.routing.score = ScoreFunction::sigmoid, moe.routing.pre_softmax = false;
  EXPECT_EQ(moe_problems(moe), "");
  moe.balance_losses = {{0.1}}, moe.capacity_factor = 1, moe.load_bias = true;
  moe.rank_capacity_factor = 2;
  moe.routing.groups = 2, moe.routing.group_topk = 1;
  const std::string found = moe_problems(moe);
  for (const char* field : {"moe_aux_loss_coeff: 0.1", "moe_expert_capacity_factor: 1",
                            "moe_expert_rank_capacity_factor: 2",
                            "moe_router_enable_expert_bias: true", "moe_router_num_groups: 2"})
    EXPECT_NE(found.find(field), std::string::npos) << field;

  MoeFields fields;  // Megatron's command line gives only the balancing
  fields.moe_router_load_balancing_type = BalanceKind::sinkhorn;
  fields.num_moe_experts.resolve(8);
  for (const int64_t k : {1, 2}) {
    MoeFields own = fields;
    own.moe_router_topk.resolve(k);
    own.resolve();
    const MoeConfig config = to_moe_config(own, 2, 32);
    EXPECT_EQ(moe_problems(config), "");
    EXPECT_TRUE(config.sinkhorn && config.routing.choose_logits);
    EXPECT_EQ(config.routing.score, k == 1 ? ScoreFunction::sigmoid : ScoreFunction::softmax);
  }
}

TEST(ModelFromFields, SeveralBalancingLossesHaveACoefficientEach) {
  using enum BalanceKind;
  using Types = std::vector<BalanceKind>;
  using Coefficients = std::vector<double>;
  const auto fields_of = [](const OneOrList<BalanceKind>& types,
                            const OneOrList<double>& coefficients) {
    MoeFields fields;
    fields.moe_router_load_balancing_type = types;
    fields.moe_aux_loss_coeff = coefficients;
    fields.num_moe_experts.resolve(8);
    fields.resolve();
    return fields;
  };
  const auto losses = [&](const auto& types, const auto& coefficients) {
    return to_moe_config(fields_of(types, coefficients), 2, 32).balance_losses;
  };
  EXPECT_EQ(losses(Types{seq_aux_loss, global_aux_loss}, Coefficients{0.25, 0.5}),
            (std::vector<BalanceLoss>{{0.25, BalanceScope::document}, {0.5, BalanceScope::step}}));
  EXPECT_EQ(losses(Types{aux_loss, global_aux_loss}, Coefficients{0, 0.5}),
            (std::vector<BalanceLoss>{{0.5, BalanceScope::step}}));
  EXPECT_EQ(losses(none, 0.5), std::vector<BalanceLoss>{});

  const auto problem = [&](const auto& types, const auto& coefficients) {
    Problems problems;
    check_balancing(fields_of(types, coefficients), problems);
    return problems.empty() ? "" : problems.all().front();
  };
  const auto expect = [](const std::string& found, const std::string& part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  EXPECT_EQ(problem(Types{aux_loss, seq_aux_loss}, Coefficients{0.25, 0.5}), "");
  EXPECT_EQ(problem(Types{aux_loss, seq_aux_loss}, 0.0), "");
  EXPECT_EQ(problem(Types{sinkhorn}, 0.0), "");
  expect(problem(Types{}, 0.5), "expected at least one type");
  expect(problem(Types{aux_loss, sinkhorn}, Coefficients{0.25, 0.5}), "or sinkhorn alone");
  expect(problem(Types{aux_loss, aux_loss}, Coefficients{0.25, 0.5}), "aux_loss twice");
  expect(problem(Types{aux_loss, seq_aux_loss}, 0.5), "1 coefficient for 2 types");
  expect(problem(aux_loss, Coefficients{0.5, 0.25}), "2 coefficients for 1 type of");
}

TEST(ModelFromFields, ABiasAtAQuantileComparesScoresOfAllExperts) {
  MoeFields fields;  // the balancing alone decides scores and bias
  fields.moe_router_load_balancing_type = BalanceKind::quantile_balancing;
  fields.num_moe_experts.resolve(8);
  fields.resolve();
  const MoeConfig moe = to_moe_config(fields, 2, 32);
  EXPECT_EQ(moe_problems(moe), "");
  EXPECT_TRUE(moe.load_bias);
  EXPECT_EQ(moe.quantile_bins, 1000);
  EXPECT_EQ(moe.routing.score, ScoreFunction::sigmoid);
  const auto refused = [&](const auto& change) {
    MoeConfig other = moe;
    change(other);
    return moe_problems(other);
  };
  const auto expect = [](const std::string& found, const std::string& part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(refused([](MoeConfig& m) { m.routing.score = ScoreFunction::sqrt_softplus; }),
         "moe_router_score_function: sqrtsoftplus with "
         "moe_router_load_balancing_type=quantile_balancing");
  expect(refused([](MoeConfig& m) { m.load_bias = false; }),
         "moe_router_enable_expert_bias: false");
  expect(refused([](MoeConfig& m) { m.routing.topk = 8; }),
         "num_moe_experts = 8 experts; nearest: 7");
  expect(refused([](MoeConfig& m) { m.balance_losses = {{0.1}}; }), "moe_aux_loss_coeff: 0.1");
  expect(refused([](MoeConfig& m) { m.capacity_factor = 2; }), "moe_expert_capacity_factor: 2");
  expect(refused([](MoeConfig& m) { m.routing.groups = 4, m.routing.group_topk = 2; }),
         "moe_router_num_groups: 4");
  EXPECT_EQ(refused([](MoeConfig& m) { m.routing.groups = m.routing.group_topk = 1; }), "")
      << "one group is no limit";
}

TEST(ModelFromFields, OneExpertOfATokenMayHaveTheSigmoidAsItsWeight) {
  for (const char* family : {"mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss"}) {
    SCOPED_TRACE(family);
    const auto golden = test::test_data("golden") / family / "model/config.json";
    ModelConfig model = read_hf_config(read_file(golden), golden.string());
    model.moe.routing.topk = 1;
    model.moe.routing.pre_softmax = false;
    model.moe.routing.score = ScoreFunction::sigmoid;
    model.moe.routing.normalize = false;  // one score is not divided by itself
    const std::string text = write_hf_config(model);
    EXPECT_EQ(read_hf_config(text, "config.json").moe.routing, model.moe.routing);
    // Without the field that says so, the weight of one expert is 1.
    const std::string plain =
        std::regex_replace(text, std::regex("score_function: sigmoid"), "topk: 1");
    ASSERT_NE(plain, text);
    EXPECT_THROW(read_hf_config(plain, "config.json"), ConfigError);
  }
}

TEST(ModelFromFields, AFamilyOfWeightsOverTheChosenRefusesScaledLogits) {
  const ModelFamily& family = model_family("mixtral");
  ModelConfig model = test::tiny_model("mixtral");
  EXPECT_NO_THROW(family.write(model));
  model.moe.sinkhorn = model.moe.routing.choose_logits = model.moe.routing.pre_softmax = true;
  try {
    family.write(model);
    ADD_FAILURE() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("sinkhorn needs: its weights are a softmax over all"),
              std::string::npos)
        << error.what();
  }
}

// Before a rank starts: a layer would find it out when ranks are running.
TEST(ModelFromFields, TensorsThatTheFamilyHasNoNamesForAreRefused) {
  const auto refusal = [](const ModelConfig& model) -> std::string {
    try {
      check_model_config(model);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  ModelConfig biased = test::tiny_model("mixtral");
  EXPECT_EQ(refusal(biased), "");
  biased.up_bias = biased.down_bias = true;
  EXPECT_NE(refusal(biased).find("model.add_mlp_bias: model family mixtral has no names for "
                                 "biases of experts"),
            std::string::npos);
  ModelConfig experts = test::tiny_model("mixtral");
  experts.family = "llama";
  EXPECT_NE(refusal(experts).find("model.num_moe_experts: model family llama has no names"),
            std::string::npos);
  ModelConfig shared = test::tiny_model("mixtral");
  shared.moe.shared_feed_forward = 8;
  EXPECT_NE(refusal(shared).find("model.moe_shared_expert_intermediate_size: model family"),
            std::string::npos);
  ModelConfig dense = test::tiny_model("mixtral");
  dense.moe = {};
  EXPECT_NE(refusal(dense).find("has no names for a dense feed-forward"), std::string::npos);
}

TEST(ModelFromFields, TheUsersWordWinsOverTheModelFolder) {
  test::TemporaryFolder folder;
  write_file_atomically(folder / "config.json", kConfigs.at("llama"));
  ModelFields fields;
  fields.hf_config = folder.path().string();
  fields.num_layers = 7;
  fields.rope_scaling = parse_yaml("{rope_type: linear, factor: 2}", "test");
  take_hf_config(fields);
  fields.resolve();
  const ModelConfig model = to_model_config(fields);
  EXPECT_EQ(model.layers, 7);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.rotary.scaling, RopeScalingKind::linear);
  EXPECT_EQ(model.rotary.factor, 2);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_FALSE(model.up_bias);
}

TEST(ModelFromFields, WhatFieldsCannotSayIsRefused) {
  ModelConfig model = read_hf_config(kConfigs.at("gemma2"), "config.json");
  model.windows = {16, 32, 0, 0};
  ModelFields fields;
  EXPECT_THROW(take_architecture(fields, model), ConfigError);
  ModelFields scaled;
  take_architecture(scaled, read_hf_config(kConfigs.at("qwen3"), "config.json"));
  scaled.rope_scaling = parse_yaml("{rope_type: stretched, factor: 2}", "test");
  scaled.resolve();
  EXPECT_THROW(to_model_config(scaled), ConfigError);
}

}  // namespace
}  // namespace viaduct
