// Families with experts whose config.json says in its own words where experts are, how they are
// chosen, and which part of a head rotates.

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "model/family.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

std::string small_config(const std::string& family, const std::string& fields) {
  return R"({"model_type": ")" + family + R"(", "vocab_size": 30, "hidden_size": 16,
    "intermediate_size": 20, "num_hidden_layers": 6, "num_attention_heads": 2,
    "max_position_embeddings": 64)" +
         (fields.empty() ? "" : ", ") + fields + "}";
}

ModelConfig read_small(const std::string& family, const std::string& fields) {
  return read_hf_config(small_config(family, fields), "config.json");
}

std::string refused(const std::string& family, const std::string& fields) {
  try {
    (void)read_small(family, fields);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ExpertFamilies, ErnieHasExpertsFromALayerToAnotherInEveryNth) {
  const auto layers = [](const std::string& fields) {
    const ModelConfig model = read_small("ernie4_5_moe", fields);
    const std::string written = write_hf_config(model);
    EXPECT_EQ(read_hf_config(written, "again").moe.layers, model.moe.layers) << written;
    EXPECT_FALSE(Json::parse(written).contains("viaduct_fields")) << written;
    return model.moe.layers;
  };
  EXPECT_THAT(layers(""), ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(layers(R"("moe_layer_end_index": 3)"), ElementsAre(0, 1, 1, 1, 0, 0));
  EXPECT_THAT(layers(R"("moe_layer_start_index": 0, "moe_layer_interval": 2)"),
              ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(layers(R"("moe_layer_start_index": 4, "moe_layer_interval": 3)"),
              ElementsAre(0, 0, 0, 0, 0, 1));
  ModelConfig model = read_small("ernie4_5_moe", "");
  model.moe.layers = {1, 0, 0, 1, 0, 0};  // not a multiple of the step from the first layer on
  EXPECT_THAT([&] { write_hf_config(model); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("model.moe_layer_freq")));
}

// What config.json cannot say is refused by the field's name, not by that of the file.
TEST(ExpertFamilies, ErnieSharesAtMostAsManyExpertsAsItRoutes) {
  ModelConfig model = read_small("ernie4_5_moe", "");
  model.moe.shared_feed_forward = (model.moe.experts + 1) * model.moe.feed_forward;
  EXPECT_THAT([&] { write_hf_config(model); },
              testing::ThrowsMessage<ConfigError>(
                  HasSubstr("model.moe_shared_expert_intermediate_size: family ernie4_5_moe has at "
                            "most num_moe_experts")));
}

TEST(ExpertFamilies, ErnieChoosesByProbabilitiesPlusABias) {
  const ModelConfig model = read_small("ernie4_5_moe", R"("moe_num_shared_experts": 0)");
  EXPECT_TRUE(model.moe.load_bias);
  EXPECT_TRUE(model.moe.routing.choose_probabilities);
  EXPECT_FALSE(model.moe.routing.pre_softmax);
  EXPECT_EQ(model.moe.shared_feed_forward, 0);
  EXPECT_EQ(read_small("ernie4_5_moe", R"("num_experts_per_tok": 3)").moe.routing.topk, 3);
  EXPECT_THAT(refused("ernie4_5_moe", R"("use_bias": true)"), HasSubstr("use_bias"));
  EXPECT_THAT(refused("ernie4_5_moe", R"("moe_norm_min": 0.1)"), HasSubstr("moe_norm_min 0.1"));
  EXPECT_THAT(refused("ernie4_5_moe", R"("moe_use_aux_free": false)"),
              HasSubstr("moe_use_aux_free"));
  EXPECT_THAT(refused("ernie4_5_moe", R"("moe_layer_interval": 0)"),
              HasSubstr("moe_layer_interval is 0"));
  EXPECT_THAT(refused("ernie4_5_moe", R"("moe_k": 1)"), HasSubstr("moe_k 1 is not supported"));
  EXPECT_THAT(refused("ernie4_5_moe", R"("num_experts_per_tok": 1)"),
              HasSubstr("num_experts_per_tok 1 is not supported"));
}

TEST(ExpertFamilies, MiniMaxRotatesThePartThatAnyOfItsFieldsSays) {
  const auto width = [](const std::string& fields) {
    return read_small("minimax_m2", R"("head_dim": 32, )" + fields).rotary.width;
  };
  EXPECT_EQ(read_small("minimax_m2", "").rotary.width, 128);
  EXPECT_EQ(width(R"("rotary_dim": 8)"), 8);
  EXPECT_EQ(width(R"("partial_rotary_factor": 0.5)"), 16);
  // What transformers 5 has computed from the first counts.
  EXPECT_EQ(width(R"("rotary_dim": 8, "rope_parameters": {"rope_type": "default",
    "rope_theta": 100.0, "partial_rotary_factor": 0.75})"),
            24);
  EXPECT_THAT(refused("minimax_m2", R"("rotary_dim": 200)"), HasSubstr("partial_rotary_factor"));
}

TEST(ExpertFamilies, WhatMiniMaxsFilesSayAndNobodyComputesIsRefused) {
  for (const char* fields :
       {R"("use_routing_bias": false)", R"("use_qk_norm": false)", R"("scoring_func": "softmax")",
        R"("qk_norm_type": "per_head")", R"("shared_intermediate_size": 8)",
        R"("attn_type_list": [1, 0, 1, 1, 1, 1])", R"("layernorm_mlp_beta": 0.5)",
        R"("num_experts_per_tok": 1)"}) {
    const std::string field = std::string(fields).substr(1, std::string(fields).find('"', 1) - 1);
    EXPECT_THAT(refused("minimax_m2", fields), HasSubstr(field)) << fields;
  }
}

TEST(ExpertFamilies, HunyuanListsNumbersOfEachLayerThatAreTheSame) {
  const ModelConfig model = read_small("hunyuan_v1_moe", R"("num_experts": [4, 4, 4, 4, 4, 4],
    "moe_topk": [2, 2, 2, 2, 2, 2], "num_shared_expert": [1, 1, 1, 1, 1, 1],
    "moe_intermediate_size": [20, 20, 20, 20, 20, 20], "use_mixed_mlp_moe": true)");
  EXPECT_EQ(model.moe.experts, 4);
  EXPECT_EQ(model.moe.routing.topk, 2);
  EXPECT_EQ(model.moe.shared_feed_forward, 20);
  EXPECT_TRUE(model.qk_norm_after_rotary);
  const Json written = Json::parse(write_hf_config(model));
  EXPECT_EQ(written.at("moe_topk"), 2);
  EXPECT_FALSE(written.contains("viaduct_fields")) << written;
  const std::string two = R"("num_experts": 4, "moe_topk": 2, )";
  for (const char* fields :
       {R"("use_mixed_mlp_moe": false)", R"("norm_topk_prob": false)",
        R"("group_limited_greedy": true)", R"("moe_drop_tokens": true)",
        R"("moe_layer_num_skipped": 1)", R"("num_shared_expert": 2)",
        R"("moe_intermediate_size": [20, 20, 20, 20, 20, 24])", R"("moe_intermediate_size": 24)"}) {
    const std::string field = std::string(fields).substr(1, std::string(fields).find('"', 1) - 1);
    EXPECT_THAT(refused("hunyuan_v1_moe", two + fields), HasSubstr(field)) << fields;
  }
  EXPECT_THAT(refused("hunyuan_v1_moe", R"("num_experts": 4, "moe_topk": 1)"),
              HasSubstr("moe_topk 1 is not supported"));
  EXPECT_THAT(refused("hunyuan_v1_moe", R"("num_experts": [4, 4, 4, 4, 4, 8], "moe_topk": 2)"),
              HasSubstr("num_experts differs from layer to layer"));
}

TEST(ExpertFamilies, PhimoeHasSparseMixersMarginAndTheFactorOfItsRotation) {
  const std::string lists = R"("rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 2],
    "long_factor": [1, 2, 3, 4], "original_max_position_embeddings": 32, "short_mscale": 1.25,
    "long_mscale": )";
  const ModelConfig model = read_small("phimoe", lists + R"(1.25}, "lm_head_bias": true)");
  EXPECT_EQ(model.rotary.attention_factor, 1.25);
  EXPECT_EQ(model.moe.routing.margin, 0.02);
  EXPECT_EQ(model.norm, NormKind::layer_norm);
  EXPECT_TRUE(model.head_bias);
  const Json written = Json::parse(write_hf_config(model));
  EXPECT_EQ(written.at("router_jitter_noise"), 0.01);
  EXPECT_EQ(written.at("rope_scaling").at("long_mscale"), 1.25);
  EXPECT_FALSE(written.contains("viaduct_fields")) << written;
  EXPECT_EQ(write_hf_config(read_hf_config(written.dump(), "again")), write_hf_config(model));
  EXPECT_THAT(refused("phimoe", lists + "1.5}"), HasSubstr("short_mscale 1.25 and long_mscale"));
  EXPECT_THAT(refused("phimoe", R"("num_experts_per_tok": 3)"), HasSubstr("num_experts_per_tok 3"));
  EXPECT_THAT(refused("phimoe", R"("router_jitter_noise": 0)"), HasSubstr("router_jitter_noise 0"));
  EXPECT_THAT(refused("phimoe", R"("rope_scaling": {"rope_type": "linear", "factor": 2.0})"),
              HasSubstr("rope_type linear is not supported in family phimoe"));
}

TEST(ExpertFamilies, GraniteRotatesInFilesOfBothVersions) {
  EXPECT_EQ(write_hf_config(read_small("granitemoe", R"("position_embedding_type": "rope")")),
            write_hf_config(read_small("granitemoe", "")));
  EXPECT_THAT(refused("granitemoe", R"("position_embedding_type": "nope")"),
              HasSubstr("position_embedding_type nope"));
  EXPECT_THAT(refused("granitemoe", R"("num_experts_per_tok": 1)"),
              HasSubstr("num_experts_per_tok 1 is not supported"));
}

TEST(ExpertFamilies, KimiIsDeepSeekV3UnderAnotherType) {
  const std::string fields = R"("q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4, "v_head_dim": 6, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1)";
  Json kimi = Json::parse(write_hf_config(read_small("kimi_k2", fields)));
  EXPECT_EQ(kimi.at("model_type"), "kimi_k2");
  EXPECT_EQ(kimi.at("architectures").at(0), "DeepseekV3ForCausalLM");
  kimi["model_type"] = "deepseek_v3";
  EXPECT_EQ(kimi, Json::parse(write_hf_config(read_small("deepseek_v3", fields))));
}

TEST(ExpertFamilies, GlmHasDeepSeeksExpertsAndItsOwnAttention) {
  const ModelConfig air = read_small("glm4_moe", R"("attention_bias": true)");
  EXPECT_TRUE(air.qkv_bias);
  EXPECT_FALSE(air.projection_bias);
  EXPECT_FALSE(air.qk_norm);
  EXPECT_EQ(air.rotary.width, air.head_dim / 2);
  EXPECT_EQ(air.moe.routing.score, ScoreFunction::sigmoid);
  EXPECT_TRUE(air.moe.load_bias);
  EXPECT_EQ(air.moe.shared_feed_forward, 1408);
  EXPECT_EQ(air.moe.layers.at(0), 0);
  EXPECT_EQ(air.mtp_layers, 0);
  EXPECT_EQ(read_small("glm4_moe", R"("num_nextn_predict_layers": 1)").mtp_layers, 1);
  EXPECT_TRUE(read_small("glm4_moe", R"("use_qk_norm": true)").qk_norm);
  EXPECT_THAT(refused("glm4_moe", R"("num_experts_per_tok": 1)"), HasSubstr("norm_topk_prob true"));
}

TEST(ExpertFamilies, GlmsLatentModelListsItsDenseLayersFirst) {
  const ModelConfig model = read_small("glm4_moe_lite", "");
  EXPECT_EQ(model.latent.q_rank, 768);
  EXPECT_EQ(model.latent.plain_dim, 192);
  EXPECT_EQ(model.latent.value_dim, 256);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(model.latent.norm_eps, 1e-6);
  EXPECT_EQ(model.moe.routing.scaling, 1.8);
  EXPECT_THAT(model.moe.layers, ElementsAre(0, 1, 1, 1, 1, 1));
  const std::string two = R"("mlp_layer_types": ["dense", "dense", "sparse", "sparse", "sparse",
    "sparse"])";
  const ModelConfig listed = read_small("glm4_moe_lite", two);
  EXPECT_THAT(listed.moe.layers, ElementsAre(0, 0, 1, 1, 1, 1));
  const Json written = Json::parse(write_hf_config(listed));
  EXPECT_EQ(written.at("mlp_layer_types"), Json::parse("{" + two + "}").at("mlp_layer_types"));
  EXPECT_EQ(written.at("first_k_dense_replace"), 2);
  EXPECT_FALSE(written.contains("viaduct_fields")) << written;
  EXPECT_EQ(write_hf_config(read_hf_config(written.dump(), "again")), write_hf_config(listed));
  EXPECT_THAT(refused("glm4_moe_lite", R"("first_k_dense_replace": 2)"),
              HasSubstr("first_k_dense_replace 2 is not supported (supported: 1)"));
  EXPECT_THAT(refused("glm4_moe_lite", two + R"(, "first_k_dense_replace": 1)"),
              HasSubstr("(supported: 2)"));
  EXPECT_THAT(refused("glm4_moe_lite", R"("mlp_layer_types": ["sparse"])"),
              HasSubstr("mlp_layer_types has 1 entry for 6 layers"));
  EXPECT_THAT(refused("glm4_moe_lite", R"("mlp_layer_types": ["dense", "sparse", "dense",
    "sparse", "sparse", "sparse"])"),
              HasSubstr("mlp_layer_types: dense in layer 2 is not supported"));
}

TEST(ExpertFamilies, DotsHasWindowsFromALayerOnUnlessTheyAreListed) {
  EXPECT_THAT(read_small("dots1", R"("sliding_window": 8, "max_window_layers": 4)").windows,
              ElementsAre(0, 0, 0, 0, 8, 8));
  EXPECT_THAT(read_small("dots1", R"("sliding_window": null, "max_window_layers": 4)").windows,
              ElementsAre(0, 0, 0, 0, 0, 0));
  const ModelConfig model = read_small("dots1", R"("sliding_window": 8, "layer_types":
    ["full_attention", "sliding_attention", "full_attention", "full_attention", "full_attention",
     "full_attention"])");
  EXPECT_THAT(model.windows, ElementsAre(0, 8, 0, 0, 0, 0));
  EXPECT_FALSE(model.moe.routing.normalize);
}

}  // namespace
}  // namespace viaduct
