// Families that differ in little from another one: defaults of their config.json, and what it may
// not say.

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "model/family.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

ModelConfig read(const std::string& family, const std::string& fields) {
  return read_hf_config(R"({"model_type": ")" + family + R"(", "vocab_size": 30, "hidden_size": 16,
    "intermediate_size": 20, "num_hidden_layers": 5, "num_attention_heads": 2,
    "max_position_embeddings": 64)" +
                            (fields.empty() ? "" : ", ") + fields + "}",
                        "config.json");
}

std::string refusal(const std::string& family, const std::string& fields) {
  try {
    (void)read(family, fields);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(NearFamilies, CwmHasWindowsInThreeOfFourLayersAndAStretchUnlessItSaysOthers) {
  const ModelConfig plain = read("cwm", "");
  EXPECT_THAT(plain.windows, ElementsAre(0, 8192, 8192, 8192, 0));
  EXPECT_EQ(plain.head_dim, 128);
  EXPECT_EQ(plain.rotary.scaling, RopeScalingKind::llama3);
  EXPECT_EQ(plain.rotary.factor, 16);
  EXPECT_EQ(write_hf_config(read("cwm", R"("rope_theta": 1000000.0, "rope_scaling": null)")),
            write_hf_config(plain));
  EXPECT_THAT(refusal("cwm", R"("rope_theta": 5000.0)"),
              HasSubstr("rope_theta is 5000 without rope_parameters"));
  const ModelConfig other = read("cwm", R"("rope_parameters": {"rope_type": "default",
    "rope_theta": 5000.0}, "sliding_window": null, "layer_types": ["full_attention",
    "full_attention", "full_attention", "full_attention", "full_attention"])");
  EXPECT_THAT(other.windows, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(read_hf_config(write_hf_config(other), "again").rotary.scaling, RopeScalingKind::none);
  EXPECT_EQ(read_hf_config(write_hf_config(other), "again").rotary.base, 5000);
  EXPECT_THAT(refusal("cwm", R"("attention_bias": true)"), HasSubstr("attention_bias"));
}

TEST(NearFamilies, MinistralListsItsLayersWithAWindow) {
  EXPECT_THAT(read("ministral", "").windows, ElementsAre(4096, 4096, 4096, 4096, 4096));
  EXPECT_THAT(read("ministral", R"("sliding_window": null)").windows, ElementsAre(0, 0, 0, 0, 0));
  const std::string mixed = R"("sliding_window": 8, "layer_types": ["full_attention",
    "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"])";
  EXPECT_THAT(read("ministral", mixed).windows, ElementsAre(0, 8, 8, 8, 0));
  EXPECT_THAT(refusal("mistral", mixed), HasSubstr("for every layer"));
}

TEST(NearFamilies, NormsOfOlmoHaveAnEpsilonAndNothingElse) {
  ModelConfig model = read("olmo", R"("rms_norm_eps": 0.5)");  // which its code does not read
  EXPECT_EQ(model.norm, NormKind::layer_norm);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_THAT(refusal("olmo", R"("clip_qkv": 8.0)"), HasSubstr("clip_qkv"));
  EXPECT_THAT(refusal("olmo", R"("head_dim": 4)"), HasSubstr("head_dim is 4"));
  const auto unwritten = [&](const ModelConfig& one) {
    try {
      (void)write_hf_config(one);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  ModelConfig biased = model;
  biased.norm_bias = true;
  EXPECT_THAT(unwritten(biased), HasSubstr("model.layernorm_bias"));
  ModelConfig centred = model;
  centred.norm_weight_offset = 1;
  EXPECT_THAT(unwritten(centred), HasSubstr("model.layernorm_zero_centered_gamma"));
  model.norm_eps = 1e-6;
  EXPECT_THAT(unwritten(model), HasSubstr("model.layernorm_epsilon"));
}

// Only a norm of a whole block, or before the head, has no weights where it has no name.
TEST(NearFamilies, NormsOfHeadsWithoutANameAreRefused) {
  ModelConfig model = read("deepseek_v3", R"("q_lora_rank": null, "kv_lora_rank": 8,
    "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 8, "n_group": 1, "topk_group": 1)");
  check_model_config(model);
  model.latent = {};
  EXPECT_THAT([&] { check_model_config(model); },
              testing::ThrowsMessage<ConfigError>(HasSubstr(
                  "model.qk_layernorm: model family deepseek_v3 has no names for norms of "
                  "queries and keys")));
}

TEST(NearFamilies, HeadsOfBigCodeShareOneKeyOrHaveTheirOwn) {
  const auto bigcode = [](const std::string& fields) {
    return read_hf_config(
        R"({"model_type": "gpt_bigcode", "n_embd": 16, "n_head": 4, "n_layer": 1)" + fields + "}",
        "config.json");
  };
  EXPECT_EQ(bigcode("").kv_heads, 1);
  EXPECT_EQ(bigcode(R"(, "num_key_value_heads": 1)").kv_heads, 1);
  EXPECT_EQ(bigcode(R"(, "multi_query": false)").kv_heads, 4);
  EXPECT_THAT([&] { bigcode(R"(, "num_key_value_heads": 2)"); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("num_key_value_heads 2")));
  ModelConfig two = bigcode("");
  two.kv_heads = 2;
  EXPECT_THAT([&] { write_hf_config(two); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("model.num_query_groups")));
}

TEST(NearFamilies, GptNeoRepeatsTheKindsOfItsLayers) {
  const auto neo = [](int layers, const std::string& fields) {
    return read_hf_config(R"({"model_type": "gpt_neo", "hidden_size": 16, "num_heads": 2,
      "num_layers": )" + std::to_string(layers) +
                              fields + "}",
                          "config.json");
  };
  EXPECT_EQ(neo(24, "").windows[23], 256);
  EXPECT_EQ(neo(24, "").windows[22], 0);
  const ModelConfig model = neo(
      5, R"(, "window_size": 8, "attention_types": [[["global", "local"], 2], [["local"], 1]])");
  EXPECT_THAT(model.windows, ElementsAre(0, 8, 0, 8, 8));
  const Json json = Json::parse(write_hf_config(model));
  EXPECT_EQ(json.at("attention_types"),
            Json::parse(R"([[["global"], 1], [["local"], 1], [["global"], 1], [["local"], 2]])"));
  EXPECT_EQ(read_hf_config(json.dump(), "again").windows, model.windows);
  const auto refused = [&](const std::string& fields) {
    try {
      (void)neo(2, fields);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused(""), HasSubstr("attention_types says 24 layers, but num_layers is 2"));
  EXPECT_THAT(refused(R"(, "attention_types": [[["global"], 1], [["near"], 1]])"),
              HasSubstr("attention_types: near is not supported"));
  EXPECT_THAT(refused(R"(, "attention_types": [[["global"], 2]],
      "attention_layers": ["local", "local"])"),
              HasSubstr("attention_layers differs from attention_types"));
  for (const char* wrong : {R"("global")", R"([["global", 2]])", R"([[["global"], -1]])",
                            R"([[["global", 3], 1]])", R"([[["global"], 4611686018427387904]])"})
    EXPECT_THAT(refused(R"(, "attention_types": )" + std::string(wrong)),
                HasSubstr("expected a list of pairs"))
        << wrong;
}

TEST(NearFamilies, SolarOpenHasExpertsInEveryLayer) {
  const ModelConfig model = read("solar_open", "");
  EXPECT_TRUE(model.moe.routes(0));
  EXPECT_EQ(model.moe.routing.score, ScoreFunction::sigmoid);
  EXPECT_EQ(model.moe.shared_feed_forward, 1280);
  EXPECT_EQ(model.rotary.base, 1e6);
  EXPECT_THAT(refusal("solar_open", R"("first_k_dense_replace": 1)"),
              HasSubstr("first_k_dense_replace 1"));
  EXPECT_THAT(refusal("solar_open", R"("partial_rotary_factor": 0.5)"),
              HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(refusal("solar_open", R"("use_qk_norm": true)"), HasSubstr("use_qk_norm"));
}

TEST(NearFamilies, GranitesExpertOfAllTokensMayBeMissing) {
  EXPECT_EQ(read("granitemoeshared", "").moe.shared_feed_forward, 0);
  const ModelConfig model = read("granitemoeshared", R"("shared_intermediate_size": 12)");
  EXPECT_EQ(model.moe.shared_feed_forward, 12);
  EXPECT_EQ(read_hf_config(write_hf_config(model), "again").moe.shared_feed_forward, 12);
  EXPECT_THAT(refusal("granitemoeshared", R"("shared_intermediate_size": -1)"),
              HasSubstr("shared_intermediate_size is -1"));
  EXPECT_THAT(refusal("granitemoe", R"("shared_intermediate_size": 12)"),
              HasSubstr("shared_intermediate_size"));
}

}  // namespace
}  // namespace viaduct
