// config.json: both spellings of fields renamed in newer versions of Hugging Face's code, and
// errors naming fields that would change the computation.

#include <gmock/gmock.h>

#include <cmath>
#include <tuple>

#include "base/error.h"
#include "model/family.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

/// A config.json of `family` with `fields` added, later ones before earlier ones.
std::string config(const std::string& family, const std::string& fields) {
  return R"({"model_type": ")" + family + R"(", "vocab_size": 30, "hidden_size": 16,
    "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2,
    "max_position_embeddings": 64)" +
         (fields.empty() ? "" : ", ") + fields + "}";
}

ModelConfig read(const std::string& family, const std::string& fields) {
  return read_hf_config(config(family, fields), "config.json");
}

std::string refusal(const std::string& family, const std::string& fields) {
  try {
    read(family, fields);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(HfConfig, OldAndNewSpellingsSayTheSame) {
  const std::string yarn = R"("factor": 4.0, "original_max_position_embeddings": 16)";
  const std::vector<std::pair<std::string, std::string>> pairs{
      {R"("rope_theta": 500.0, "torch_dtype": "float32")",
       R"("rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "dtype": "float32")"},
      {R"("rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0})",
       R"("rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0})"},
      {R"("rope_theta": 500.0, "rope_scaling": {"rope_type": "yarn", )" + yarn + "}",
       R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 500.0, )" + yarn + "}"}};
  for (const auto& [before, now] : pairs) {
    EXPECT_EQ(write_hf_config(read("llama", before)), write_hf_config(read("llama", now))) << now;
    EXPECT_EQ(read("llama", now).rotary.base, 500) << now;
  }
  EXPECT_NE(write_hf_config(read("llama", pairs[1].first)),
            write_hf_config(read("llama", pairs[0].first)));
}

/// The files of transformers 4 and 5 for families whose kinds of layers rotate differently.
TEST(HfConfig, OldAndNewSpellingsOfKindsOfLayersSayTheSame) {
  const std::string yarn =
      R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16)";
  const ModelConfig gemma = read("gemma3_text", R"("rope_theta": 5000.0, "rope_scaling":
    {"rope_type": "linear", "factor": 8.0}, "rope_local_base_freq": 100.0, "sliding_window": 8,
    "sliding_window_pattern": 2)");
  EXPECT_EQ(write_hf_config(gemma),
            write_hf_config(read("gemma3_text", R"("rope_parameters": {"full_attention":
    {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0}, "sliding_attention":
    {"rope_type": "default", "rope_theta": 100.0}}, "sliding_window": 8, "layer_types":
    ["sliding_attention", "full_attention", "sliding_attention"])")));
  EXPECT_EQ(gemma.rotary.base, 5000);
  EXPECT_EQ(gemma.rotary.factor, 8);
  EXPECT_EQ(gemma.window_rotary_base, 100);
  EXPECT_EQ(gemma.windows, (std::vector<int64_t>{8, 0, 8}));
  const ModelConfig olmo = read(
      "olmo3", R"("rope_theta": 300.0, "rope_scaling": )" + yarn + R"(}, "sliding_window": 8)");
  EXPECT_EQ(write_hf_config(olmo),
            write_hf_config(read("olmo3", R"("rope_parameters": {"full_attention": )" + yarn +
                                              R"(, "rope_theta": 300.0}, "sliding_attention":
    {"rope_type": "default", "rope_theta": 300.0}}, "sliding_window": 8)")));
  EXPECT_EQ(olmo.window_rotary_base, 300);
  EXPECT_THAT(refusal("gemma3_text", R"("rope_parameters": {"full_attention":
    {"rope_type": "default"}, "sliding_attention": {"rope_type": "linear", "factor": 2.0}})"),
              HasSubstr("rope_type linear is not supported in sliding_attention"));
  EXPECT_THAT(refusal("llama", R"("rope_parameters": {"full_attention": {"rope_theta": 1.0}})"),
              HasSubstr("full_attention"));
}

TEST(HfConfig, DefaultsOfKindsOfLayersAreThoseOfTheFamily) {
  EXPECT_EQ(read("gemma3_text", "").rotary.base, 1e6);
  EXPECT_EQ(read("gemma3_text", "").window_rotary_base, 10000);
  EXPECT_EQ(read("gemma3_text", "").windows, std::vector<int64_t>(3, 4096));
  EXPECT_EQ(read("olmo3", "").window_rotary_base, 500000);
  EXPECT_EQ(read("smollm3", R"("no_rope_layer_interval": 2)").no_rope,
            (std::vector<int64_t>{0, 1, 0}));
  EXPECT_TRUE(read("smollm3", "").no_rope.empty());  // of three layers none is the fourth
  EXPECT_EQ(read("exaone4", R"("sliding_window": 8, "sliding_window_pattern": 3)").no_rope,
            (std::vector<int64_t>{0, 0, 1}));
  EXPECT_TRUE(read("exaone4", R"("sliding_window": null)").no_rope.empty());
}

TEST(HfConfig, LayersOfLlama4FollowTheirRotaryPositions) {
  const std::string chunk = R"("attention_chunk_size": 8, "no_rope_layers": [1, 0, 1])";
  const ModelConfig model = read("llama4_text", chunk);
  EXPECT_EQ(model.chunks, (std::vector<int64_t>{8, 0, 8}));
  EXPECT_EQ(model.no_rope, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(write_hf_config(model),
            write_hf_config(read("llama4_text", chunk + R"(, "layer_types": ["chunked_attention",
    "full_attention", "chunked_attention"])")));
  EXPECT_TRUE(read("llama4_text", R"("attention_chunk_size": null)").chunks.empty());
  EXPECT_EQ(read("llama4_text", "").chunks, std::vector<int64_t>(3, 8192));
  EXPECT_EQ(read("llama4_text", R"("interleave_moe_layer_step": 2)").moe.layers,
            (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(read("llama4_text", R"("moe_layers": [0, 2])").moe.layers,
            (std::vector<int64_t>{1, 0, 1}));
  // Published files have a number in the place of a switch.
  for (const char* on : {"4", "true"})
    EXPECT_TRUE(read("llama4_text", R"("attn_temperature_tuning": )" + std::string(on))
                    .no_rope_temperature.any());
  for (const char* off : {"0", "false"})
    EXPECT_FALSE(read("llama4_text", R"("attn_temperature_tuning": )" + std::string(off))
                     .no_rope_temperature.any());
  EXPECT_THAT(refusal("llama4_text", R"("use_qk_norm": true, "rope_scaling": {"rope_type": "yarn",
    "factor": 4.0, "original_max_position_embeddings": 16})"),
              HasSubstr("qk_l2_norm"));
}

TEST(HfConfig, FieldsOfBloomAndMptThatTheirCodeDoesNotComputeAreRefused) {
  const auto refused = [](const std::string& family, const std::string& fields) {
    try {
      read_hf_config(R"({"model_type": ")" + family + R"(", )" + fields + "}", "config.json");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused("bloom", R"("n_embed": 32, "num_attention_heads": 4)"), "");
  EXPECT_THAT(refused("bloom", R"("n_layer": 2, "num_hidden_layers": 3)"), HasSubstr("n_layer"));
  EXPECT_THAT(refused("bloom", R"("n_inner": 64)"), HasSubstr("n_inner 64"));
  EXPECT_THAT(refused("bloom", R"("apply_residual_connection_post_layernorm": true)"),
              HasSubstr("apply_residual_connection_post_layernorm"));
  EXPECT_THAT(refused("bloom", R"("slow_but_exact": true, "pretraining_tp": 2)"),
              HasSubstr("slow_but_exact true with pretraining_tp 2"));
  EXPECT_EQ(refused("bloom", R"("slow_but_exact": true, "pretraining_tp": 1)"), "");
  EXPECT_EQ(refused("bloom", R"("slow_but_exact": false, "pretraining_tp": 4)"), "");
  EXPECT_EQ(refused("mpt", R"("attn_config": {"clip_qkv": null})"), "");
  for (const auto& [field, value] : {std::pair{"clip_qkv", "6"},
                                     {"qk_ln", "true"},
                                     {"prefix_lm", "true"},
                                     {"alibi_bias_max", "16"},
                                     {"attn_type", R"("multiquery_attention")"}}) {
    EXPECT_THAT(
        refused("mpt", R"("attn_config": {")" + std::string(field) + R"(": )" + value + "}"),
        HasSubstr(std::string("attn_config: ") + field));
  }
  for (const char* field :
       {R"("no_bias": false)", R"("expansion_ratio": 2)", R"("resid_pdrop": 0.1)",
        R"("logit_scale": "inv_sqrt_d_model")", R"("norm_type": "rmsnorm")"})
    EXPECT_THAT(refused("mpt", field), HasSubstr("supported")) << field;
}

TEST(HfConfig, ThePartOfAHeadThatRotatesHasTwoPlaces) {
  const std::string part = R"("partial_rotary_factor": 0.5)";
  for (const char* family : {"phi3", "stablelm", "glm", "glm4", "nemotron"}) {
    const ModelConfig before = read(family, R"("head_dim": 16, )" + part);
    EXPECT_EQ(before.rotary.width, 8) << family;
    EXPECT_EQ(write_hf_config(before),
              write_hf_config(read(family, R"("head_dim": 16, "rope_parameters": {"rope_type":
        "default", "rope_theta": 10000.0, )" + part +
                                               "}")))
        << family;
    EXPECT_THAT(refusal(family, R"("partial_rotary_factor": 1e300)"),
                HasSubstr("partial_rotary_factor"));
  }
  EXPECT_THAT(refusal("llama", R"("rope_parameters": {)" + part + "}"),
              HasSubstr("partial_rotary_factor"));
}

/// transformers 4 writes the family's names and the common ones, 5 the common ones alone.
TEST(HfConfig, TheNamesOfGptNeoxAndTheCommonOnesSayTheSame) {
  const ModelConfig own =
      read("gpt_neox", R"("rotary_pct": 0.5, "rotary_emb_base": 500, "head_dim": 8)");
  EXPECT_EQ(own.rotary.base, 500);
  EXPECT_EQ(own.rotary.width, 4);
  for (const char* fields : {R"("rotary_pct": 0.5, "rotary_emb_base": 500, "rope_theta": 500.0,
           "partial_rotary_factor": 0.5)",
                             R"("rope_parameters": {"rope_type": "default", "rope_theta": 500.0,
           "partial_rotary_factor": 0.5})"})
    EXPECT_EQ(write_hf_config(read("gpt_neox", fields)), write_hf_config(own)) << fields;
  EXPECT_EQ(read("gpt_neox", "").rotary.width, 2);
  EXPECT_TRUE(read("gpt_neox", "").parallel_block);
  EXPECT_FALSE(read("gpt_neox", R"("use_parallel_residual": false)").parallel_block);
}

TEST(HfConfig, FormsOfFalcon) {
  const auto form = [](const std::string& fields) {
    const ModelConfig model = read_hf_config(R"({"model_type": "falcon", "num_hidden_layers": 2,
      "hidden_size": 16, "num_attention_heads": 2)" +
                                                 fields + "}",
                                             "config.json");
    EXPECT_EQ(write_hf_config(read_hf_config(write_hf_config(model), "again")),
              write_hf_config(model))
        << fields;
    return std::tuple(model.kv_heads, model.parallel_block, model.shared_norm);
  };
  EXPECT_EQ(form(""), std::tuple(1, true, true));
  EXPECT_EQ(form(R"(, "num_kv_heads": 2)"), std::tuple(1, true, true));
  EXPECT_EQ(form(R"(, "multi_query": false)"), std::tuple(2, true, true));
  EXPECT_EQ(form(R"(, "parallel_attn": false)"), std::tuple(1, false, false));
  EXPECT_EQ(form(R"(, "new_decoder_architecture": true, "num_kv_heads": 1)"),
            std::tuple(1, true, false));
  EXPECT_EQ(form(R"(, "new_decoder_architecture": true, "num_ln_in_parallel_attn": 1)"),
            std::tuple(2, true, true));
}

TEST(HfConfig, NemotronMaySayThePartThatRotatesTwice) {
  const std::string expected = write_hf_config(read("nemotron", ""));
  for (const char* fields :
       {R"("rope_percent": 0.5)", R"("rope_percent": 0.5, "partial_rotary_factor": 0.5)"})
    EXPECT_EQ(write_hf_config(read("nemotron", fields)), expected) << fields;
  EXPECT_THAT(refusal("nemotron", R"("rope_percent": 0.5, "partial_rotary_factor": 1.0)"),
              HasSubstr("rope_percent is 0.5"));
}

TEST(HfConfig, LayersOfCohere2WithoutAWindowDoNotRotate) {
  const ModelConfig model = read("cohere2", R"("sliding_window": 8, "sliding_window_pattern": 3)");
  EXPECT_EQ(model.windows, (std::vector<int64_t>{8, 8, 0}));
  EXPECT_EQ(model.no_rope, (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(write_hf_config(model),
            write_hf_config(read("cohere2", R"("sliding_window": 8, "layer_types":
    ["sliding_attention", "sliding_attention", "full_attention"])")));
}

TEST(HfConfig, LongRopeReadsItsOriginalLengthFromBothPlaces) {
  const std::string lists = R"("short_factor": [1.0, 1.5], "long_factor": [2.0, 30.5])";
  const ModelConfig before = read("phi3", R"("partial_rotary_factor": 0.5,
    "original_max_position_embeddings": 16, "rope_scaling": {"type": "longrope", )" +
                                              lists + "}");
  EXPECT_EQ(before.rotary.long_factors, (std::vector<double>{2, 30.5}));
  EXPECT_EQ(before.rotary.original_max_positions, 16);
  // sqrt(1 + ln(64 / 16) / ln(16))
  EXPECT_NEAR(before.rotary.attention_factor, 1.224744871, 1e-9);
  const ModelConfig now = read("phi3", R"("rope_parameters": {"partial_rotary_factor": 0.5,
    "original_max_position_embeddings": 16, "rope_type": "longrope", "rope_theta": 10000.0, )" +
                                           lists + "}");
  EXPECT_EQ(write_hf_config(now), write_hf_config(before));
}

TEST(HfConfig, ApertusHasAnActivationWithParameters) {
  const ModelConfig unsaid = read("apertus", "");
  EXPECT_TRUE(unsaid.xielu && unsaid.qk_norm && !unsaid.gated);
  EXPECT_EQ(unsaid.rotary.scaling, RopeScalingKind::llama3);
  EXPECT_EQ(unsaid.rotary.base, 12e6);
  const ModelConfig plain = read("apertus", R"("hidden_act": "relu2", "rope_scaling":
    {"rope_type": "default"})");
  EXPECT_FALSE(plain.xielu);
  EXPECT_EQ(plain.activation, ActivationKind::squared_relu);
  EXPECT_EQ(read_hf_config(write_hf_config(plain), "again").rotary.scaling, RopeScalingKind::none);
  ModelConfig gated = read("llama", "");
  gated.xielu = true;
  EXPECT_THROW(check_model_config(gated), ConfigError);
  EXPECT_THAT(refusal("apertus", R"("hidden_act": "mish")"), HasSubstr("hidden_act mish"));
}

/// Rows have at most max_position_embeddings tokens, where dynamic scaling is none; Hunyuan's alpha
/// raises the base at any length.
TEST(HfConfig, DynamicScalingBeginsBehindThePositions) {
  const std::string scaling = R"("rope_scaling": {"type": "dynamic", "factor": 4.0)";
  const ModelConfig plain = read("llama", ""), dynamic = read("llama", scaling + "}");
  EXPECT_EQ(rotary_frequencies(dynamic.rotary, 64), rotary_frequencies(plain.rotary, 64));
  EXPECT_EQ(write_hf_config(dynamic), write_hf_config(read("llama", R"("rope_parameters":
    {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0})")));
  EXPECT_NE(write_hf_config(dynamic), write_hf_config(plain));
  const ModelConfig hunyuan = read("hunyuan_v1_dense", scaling + R"(, "alpha": 16.0})");
  EXPECT_TRUE(hunyuan.qk_norm_after_rotary);
  // 10000 · 16^(8 / 6) = 403174.736
  const ModelConfig raised = read("hunyuan_v1_dense", R"("rope_theta": 403174.7359)");
  const auto expected = rotary_frequencies(raised.rotary),
             found = rotary_frequencies(hunyuan.rotary);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_FLOAT_EQ(found[i], expected[i]) << i;
  EXPECT_EQ(read_hf_config(write_hf_config(hunyuan), "again").rotary.alpha, 16);
}

TEST(HfConfig, AlphaOfAnotherFamilyIsAFieldOfItsOwn) {
  ModelConfig model = read("llama", R"("rope_scaling": {"type": "dynamic", "factor": 4.0})");
  model.rotary.alpha = 16;
  const std::string written = write_hf_config(model);
  EXPECT_THAT(written, HasSubstr("viaduct_fields"));
  EXPECT_EQ(read_hf_config(written, "again").rotary.alpha, 16);
}

TEST(HfConfig, AttentionTemperatureStandsAmongPositions) {
  const ModelConfig unsaid = read("ministral3", "");  // the class has a scaling of its own
  EXPECT_EQ(unsaid.rotary.scaling, RopeScalingKind::yarn);
  EXPECT_EQ(unsaid.rotary.attention_factor, 1);
  EXPECT_EQ(unsaid.temperature, (AttentionTemperature{0.1, 16384}));
  const ModelConfig said = read("ministral3", R"("rope_parameters": {"type": "yarn", "factor": 4.0,
    "original_max_position_embeddings": 16, "max_position_embeddings": 64,
    "llama_4_scaling_beta": 0.3, "rope_theta": 500.0, "mscale": 1.0, "mscale_all_dim": 1.0})");
  EXPECT_EQ(said.temperature, (AttentionTemperature{0.3, 16}));
  EXPECT_EQ(said.temperature.at(15), 1);
  EXPECT_DOUBLE_EQ(said.temperature.at(63), 1 + 0.3 * std::log(4.0));
  for (const char* beta : {"", R"(, "llama_4_scaling_beta": null)"})
    EXPECT_THAT(refusal("ministral3",
                        R"("rope_parameters": {"rope_type": "default")" + std::string(beta) + "}"),
                HasSubstr("llama_4_scaling_beta is missing"));
  ModelConfig none = said;
  none.temperature = {};
  none.rotary = {.width = none.rotary.width, .base = 500};
  for (const ModelConfig& model : {said, none}) {
    const ModelConfig again = read_hf_config(write_hf_config(model), "again");
    EXPECT_EQ(again.temperature, model.temperature);
    EXPECT_EQ(again.rotary.scaling, model.rotary.scaling);
  }
  // Its length is YaRN's in such a file.
  ModelConfig apart = said;
  apart.temperature.length = 10;
  EXPECT_EQ(read_hf_config(write_hf_config(apart), "again").temperature.length, 10);
  EXPECT_THAT(write_hf_config(apart), HasSubstr("attention_temperature_length"));
}

TEST(HfConfig, AttentionTemperatureNeedsARotationOfWholeHeads) {
  ModelConfig model = read("llama", "");
  model.temperature = {0.1, 16};
  EXPECT_NO_THROW(check_model_config(model));
  const auto problem = [](const ModelConfig& config) -> std::string {
    try {
      check_model_config(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  ModelConfig part = model, based = model, skips = model, cold = model;
  part.rotary.width = 4;
  EXPECT_THAT(problem(part), HasSubstr("attention_temperature_scale: 0.1 needs rotary_percent=1"));
  based.window_rotary_base = 100;
  EXPECT_THAT(problem(based), HasSubstr("needs window_rotary_base=null"));
  skips.no_rope = {0, 1, 0};
  EXPECT_THAT(problem(skips), HasSubstr("no_rope_freq"));
  cold.temperature.length = 0;
  EXPECT_THAT(problem(cold), HasSubstr("attention_temperature_length: 0, expected at least 1"));
}

TEST(HfConfig, AFamilysFormIsNamedWhereAModelHasAnother) {
  const auto problem = [](ModelConfig model, PositionKind positions) -> std::string {
    model.positions = positions;
    try {
      (void)write_hf_config(model);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(problem(read("llama", ""), PositionKind::linear_bias),
              HasSubstr("position_embedding_type: family llama has rope, found alibi"));
  EXPECT_THAT(problem(read_hf_config(R"({"model_type": "opt"})", "opt"), PositionKind::rotary),
              HasSubstr("position_embedding_type: family opt has learned_absolute, found rope"));
}

TEST(HfConfig, ArchitecturesOfPublishersCode) {
  EXPECT_EQ(read("ernie4_5", R"("architectures": ["Ernie4_5_ForCausalLM"])").family, "ernie4_5");
  EXPECT_EQ(read("ernie4_5", R"("architectures": ["Ernie4_5ForCausalLM"])").family, "ernie4_5");
  EXPECT_THAT(refusal("llama", R"("architectures": [""])"), HasSubstr("architecture"));
}

TEST(HfConfig, RefusesByNameWhatChangesTheComputation) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"llama", R"("partial_rotary_factor": 0.5)"},
      {"llama", R"("rope_scaling": {"rope_type": "dynamic", "alpha": 2.0})"},
      {"llama", R"("rope_scaling": {"rope_type": "dynamic"})"},
      {"hunyuan_v1_dense", R"("use_cla": true)"},
      {"apertus", R"("qk_norm": false)"},
      {"apertus", R"("post_norm": true)"},
      {"hunyuan_v1_dense", R"("attention_head_dim": 4, "head_dim": 8)"},
      {"ministral3", R"("rope_parameters": {"rope_type": "default", "llama_4_scaling_beta": 0.1})"},
      {"vaultgemma", R"("use_bidirectional_attention": true)"},
      {"vaultgemma", R"("final_logit_softcapping": 0)"},
      {"vaultgemma", R"("attn_logit_softcapping": -1.0)"},
      {"gemma2", R"("attn_logit_softcapping": 0.0)"},
      {"gemma3_text", R"("final_logit_softcapping": 0)"},
      {"nemotron", R"("rope_percent": 0.25)"},
      {"llama", R"("rope_scaling": {"rope_type": "longrope", "factor": 2.0})"},
      {"llama", R"("rope_scaling": {"rope_type": "linear", "factor": 2.0, "ramp": 3})"},
      {"llama", R"("hidden_act": "mish")"},
      {"llama", R"("use_mup": true)"},
      {"phi", R"("qk_layernorm": true)"},
      {"cohere2", R"("use_qk_norm": true)"},
      {"cohere", R"("rope_theta": null)"},
      {"cohere", R"("logit_scale": 0, "rope_theta": 10000.0)"},
      {"cohere", R"("logit_scale": null, "rope_theta": 10000.0)"},
      {"cohere2", R"("logit_scale": null)"},
      {"cohere2", R"("use_gated_activation": false)"},
      {"cohere2", R"("use_parallel_block": false)"},
      {"cohere2", R"("order_of_interleaved_layers": "global_attn_first")"},
      {"cohere2", R"("head_dim": 6)"},
      {"gpt_neox", R"("head_dim": 6)"},
      {"helium", R"("head_dim": 6)"},
      {"deepseek_v2", R"("kv_lora_rank": -1)"},
      {"gpt_neox", R"("rope_theta": 500.0)"},
      {"gpt_neox", R"("partial_rotary_factor": 1.0)"},
      {"falcon", R"("head_dim": 8)"},
      {"falcon", R"("hidden_dropout": 0.1)"},
      {"falcon", R"("parallel_attn": false, "new_decoder_architecture": true)"},
      {"falcon", R"("num_ln_in_parallel_attn": 2)"},
      {"falcon", R"("apply_residual_connection_post_layernorm": true)"},
      {"gptj", R"("rotary_dim": null)"},
      {"gptj", R"("rope_theta": 500.0)"},
      {"gptj", R"("scale_attn_weights": false)"},
      {"phi3", R"("rope_scaling": {"type": "longrope"})"},
      {"phi3", R"("rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 0],
                  "long_factor": [1, 1, 1, 1]})"},
      {"phi3", R"("rope_scaling": {"type": "yarn"})"},
      {"gemma3_text", R"("use_bidirectional_attention": true)"},
      {"smollm3", R"("no_rope_layers": [1])"},
      {"granite", R"("residual_multiplier": 0)"},
      {"mistral", R"("num_experts_per_tok": 2)"},
      {"qwen2", R"("layer_types": ["chunked_attention", "full_attention", "full_attention"])"},
      {"qwen2", R"("layer_types": ["full_attention"])"},
      {"qwen3", R"("compression_config": {"bits": 4})"},
      {"gemma", R"("use_bidirectional_attention": true)"},
      {"gemma2", R"("use_bidirectional_attention": true)"},
      {"llama4_text", R"("num_experts_per_tok": 2)"},
      {"llama4_text", R"("moe_layers": [3])"},
      {"llama4_text", R"("layer_types": ["sliding_attention", "full_attention",
                         "full_attention"])"},
      {"llama4_text", R"("floor_scale": 0)"},
      {"opt", R"("do_layer_norm_before": false)"},
      {"opt", R"("word_embed_proj_dim": 8)"},
      {"opt", R"("_remove_final_layer_norm": true)"},
      {"opt", R"("layer_norm_elementwise_affine": false)"},
      {"gpt2", R"("scale_attn_by_inverse_layer_idx": true)"}};
  for (const auto& [family, fields] : cases) {
    const std::string field = fields.substr(1, fields.find('"', 1) - 1);
    const std::string fields_of = family == "gpt2" || family == "gptj" || family == "falcon"
                                      ? R"({"model_type": ")" + family + R"(", )" + fields + "}"
                                      : config(family, fields);
    try {
      read_hf_config(fields_of, "config.json");
      ADD_FAILURE() << fields << " was read";
    } catch (const ConfigError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.find(field) != std::string::npos ||
                  message.find("rope_type") != std::string::npos)
          << message;
    }
  }
  EXPECT_THAT(
      refusal("llama", R"("rope_scaling": {"rope_type": "linear", "factor": 2.0, "ramp": 3})"),
      HasSubstr("ramp"));
  EXPECT_THAT(refusal("mamba", ""), HasSubstr("mamba"));
  EXPECT_THAT(refusal("llama", R"("rope_theta": 0)"), HasSubstr("model.rotary_base: 0"));
  EXPECT_THAT(refusal("llama", R"("rms_norm_eps": -1e-5)"),
              HasSubstr("model.layernorm_epsilon: -1e-05"));
}

TEST(HfConfig, FieldsThatDoNothingAtTheirValueAreRead) {
  const std::vector<std::string> fields{
      R"("is_llama_config": true)",
      R"("rope_interleaved": false)",
      R"("transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}, "n": 3})",
      R"("partial_rotary_factor": 1.0)",
      R"("use_mrope": false)",
      R"("is_causal": true)",
      R"("max_sequence_length": 2048)",
      R"("hidden_dropout": 0.0)",
      R"("logits_scaling": 1.0)",
      R"("layer_types": ["full_attention", "full_attention", "full_attention"])",
      R"("quantization_config": null)",
      R"("quantization_config": {"quant_method": "fp8"})"};
  const std::string expected = write_hf_config(read("llama", ""));
  for (const std::string& field : fields) {
    const ModelConfig model = read("llama", field);
    EXPECT_EQ(write_hf_config(model), expected) << field;
    EXPECT_TRUE(model.notes.empty()) << field;
  }
}

TEST(HfConfig, TheSameFieldsAtOtherValuesAreRefusedWithTheOneThatIsSupported) {
  EXPECT_THAT(refusal("llama", R"("rope_interleaved": true)"),
              HasSubstr("field rope_interleaved is true, which is not supported (supported: "
                        "false)"));
  EXPECT_THAT(refusal("llama", R"("is_causal": false)"), HasSubstr("supported: true"));
  EXPECT_THAT(refusal("llama", R"("hidden_dropout": 0.1)"), HasSubstr("hidden_dropout is 0.1"));
  EXPECT_THAT(refusal("llama", R"("num_local_experts": 8)"), HasSubstr("supported: 0 or 1"));
  EXPECT_THAT(refusal("mixtral", R"("num_local_experts": -1)"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("llama", R"("layer_types": ["full_attention", "sliding_attention"])"),
              HasSubstr("layer_types"));
  EXPECT_THAT(refusal("llama", R"("sliding_window": 4096)"), HasSubstr("sliding_window is 4096"));
  EXPECT_THAT(refusal("mistral", R"("layer_types": ["full_attention"], "sliding_window": 8)"),
              HasSubstr("layer_types has full_attention, but sliding_window is 8"));
  EXPECT_THAT(refusal("gemma2", R"("sliding_window": 8, "sliding_window_size": 9)"),
              HasSubstr("sliding_window_size is 9, but sliding_window is 8"));
}

TEST(HfConfig, UnknownFieldsAreNamedOrRefused) {
  const ModelConfig model = read("llama", R"("license": "mit", "checked": false, "labels": ["a"])");
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_EQ(model.notes[0], "config.json: unknown fields were ignored: checked, labels, license");
  for (const char* field : {R"("ramp": 3)", R"("ramp": true)", R"("ramp": {"a": ["b", 0.5]})",
                            R"("ramp_norm": "inside")", R"("RopeKind": false)"}) {
    EXPECT_THAT(refusal("llama", field), HasSubstr("is not supported: it is unknown")) << field;
  }
  EXPECT_THAT(refusal("llama", R"("rope_scaling": {"type": "linear", "factor": 2.0, "by": "x"})"),
              HasSubstr("field by is not supported"));
}

TEST(HfConfig, ArchitecturesAreThoseOfLanguageModels) {
  const auto architectures = [](const std::string& name) {
    return R"("architectures": [")" + name + R"("])";
  };
  for (const char* name : {"LlamaForCausalLM", "LlamaModel"})
    EXPECT_EQ(refusal("llama", architectures(name)), "") << name;
  for (const char* name : {"LlamaForSequenceClassification", "LlamaForTokenClassification",
                           "LlamaForQuestionAnswering", "MistralForCausalLM", "LlamaForCausalLMX"})
    EXPECT_THAT(refusal("llama", architectures(name)),
                HasSubstr(std::string("architecture ") + name +
                          " is not supported (supported: LlamaForCausalLM, LlamaModel)"));
  const auto gpt2 = [&](const std::string& name) {
    return read_hf_config(R"({"model_type": "gpt2", )" + architectures(name) + "}", "config.json");
  };
  EXPECT_NO_THROW(gpt2("GPT2LMHeadModel"));
  EXPECT_NO_THROW(gpt2("GPT2Model"));
  for (const char* name : {"GPT2ForTokenClassification", "GPT2DoubleHeadsModel"})
    EXPECT_THROW(gpt2(name), ConfigError) << name;
}

TEST(HfConfig, ReadsWhatIsOff) {
  EXPECT_NO_THROW(read("gemma", R"("use_bidirectional_attention": false)"));
  EXPECT_NO_THROW(read("gemma2", R"("use_bidirectional_attention": null)"));
  EXPECT_NO_THROW(read("mistral", R"("sliding_window": null)"));
  for (const char* family : {"qwen2", "qwen3"}) {
    const std::string on = R"("use_sliding_window": true, "max_window_layers": 1)";
    EXPECT_EQ(read(family, on + R"(, "sliding_window": null)").windows,
              (std::vector<int64_t>{0, 0, 0}));
    EXPECT_EQ(read(family, on + R"(, "sliding_window": 8)").windows,
              (std::vector<int64_t>{0, 8, 8}));
    EXPECT_EQ(read(family, on).windows, (std::vector<int64_t>{0, 4096, 4096}));
    EXPECT_EQ(read(family, R"("use_sliding_window": false, "sliding_window": 8)").windows,
              (std::vector<int64_t>{0, 0, 0}));
  }
}

TEST(HfConfig, PaddingTokenIsThatOfTheFamily) {
  EXPECT_EQ(read("llama", "").padding_token, -1);
  EXPECT_EQ(read("llama", R"("pad_token_id": 7)").padding_token, 7);
  EXPECT_EQ(read("llama", R"("pad_token_id": -1)").padding_token, 29);
  EXPECT_EQ(read("gemma", "").padding_token, 0);
  EXPECT_EQ(read("gemma2", R"("pad_token_id": null)").padding_token, -1);
  for (const char* fields : {"", R"("pad_token_id": null)", R"("pad_token_id": 5)"}) {
    const ModelConfig before = read("gemma2", fields);
    EXPECT_EQ(read_hf_config(write_hf_config(before), "config.json").padding_token,
              before.padding_token);
  }
}

}  // namespace
}  // namespace viaduct
