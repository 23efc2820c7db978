// Gemma 4's config.json: heads of layers without a window as published files and as transformers
// 5.24 write them, and what is refused by name.

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/family.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

Json small() {
  return Json::parse(read_file(test::test_data("config/transformers_5.24.json"))).at("gemma4_text");
}

ModelConfig read(const Json& config) {
  return read_hf_config(config.dump(), "config.json");
}

std::string refusal(const std::string& fields) {
  Json config = small();
  config.update(Json::parse(fields));
  try {
    read(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Gemma4Config, LayersWithoutAWindowHaveOtherHeads) {
  const ModelConfig model = read(small());
  EXPECT_EQ(model.windows, (std::vector<int64_t>{8, 0}));
  EXPECT_EQ(model.head_dim_of(0), 8);
  EXPECT_EQ(model.head_dim_of(1), 16);
  EXPECT_EQ(model.kv_heads_of(0), 2);
  EXPECT_EQ(model.kv_heads_of(1), 1);
  EXPECT_FALSE(model.values_from_keys(0));
  EXPECT_TRUE(model.values_from_keys(1));
  EXPECT_EQ(model.rotary.scaling, RopeScalingKind::proportional);
  EXPECT_EQ(model.rotary.part, 0.25);
  EXPECT_EQ(model.rotary.width, 16);
  EXPECT_EQ(model.window_rotary_width(), 8);
  EXPECT_EQ(model.attention_scale, 1);
}

TEST(Gemma4Config, AbsentFieldsAreThoseOfTheClass) {
  Json config = small();
  for (const char* field : {"rope_parameters", "per_layer_config", "layer_types"})
    config.erase(field);
  config["num_hidden_layers"] = 7;
  const ModelConfig model = read(config);
  EXPECT_EQ(model.windows, (std::vector<int64_t>{8, 8, 8, 8, 8, 0, 0}));  // the last one never
  EXPECT_EQ(model.full.head_dim, 512);
  EXPECT_EQ(model.full.kv_heads, 0);
  EXPECT_EQ(model.rotary.part, 0.25);
  EXPECT_EQ(model.rotary.base, 1e6);
  EXPECT_EQ(model.window_rotary_base, 1e4);
  config["attention_k_eq_v"] = false;
  config["num_global_key_value_heads"] = 1;  // Hugging Face's code reads it beside the other only
  EXPECT_EQ(read(config).full.kv_heads, 0);
}

TEST(Gemma4Config, OnlyTheFirstPairsOfAHeadTurn) {
  const RotarySpec spec{
      .width = 8, .base = 16, .scaling = RopeScalingKind::proportional, .factor = 2, .part = 0.6};
  EXPECT_EQ(rotary_frequencies(spec), (std::vector<float>{0.5f, 0.25f, 0, 0}));
}

TEST(Gemma4Config, LayersThatAreNotBuiltAreRefusedByName) {
  EXPECT_THAT(refusal(R"({"hidden_size_per_layer_input": 256})"),
              AllOf(HasSubstr("hidden_size_per_layer_input 256"), HasSubstr("E2B")));
  EXPECT_THAT(refusal(R"({"hidden_size_per_layer_input": null})"),
              HasSubstr("hidden_size_per_layer_input 256"));
  EXPECT_THAT(refusal(R"({"num_kv_shared_layers": 1})"),
              AllOf(HasSubstr("num_kv_shared_layers 1"), HasSubstr("keys of earlier ones")));
  EXPECT_THAT(refusal(R"({"enable_moe_block": true})"),
              AllOf(HasSubstr("enable_moe_block true"), HasSubstr("26B-A4B")));
  EXPECT_THAT(refusal(R"({"use_bidirectional_attention": "all"})"),
              HasSubstr("use_bidirectional_attention all"));
  EXPECT_EQ(refusal(R"({"use_bidirectional_attention": "vision"})"), "");
  EXPECT_THAT(refusal(R"({"per_layer_config": {"0": {"head_dim": 16}, "1": {"head_dim": 16}}})"),
              AllOf(HasSubstr("layer 0 has heads of 16"), HasSubstr("expected 8")));
}

TEST(Gemma4Config, SettingsOfFullAttentionNeedWhatTheyReadFrom) {
  ModelConfig model = read(small());
  model.v_l2_norm = false;
  EXPECT_THAT([&] { check_model_config(model); },
              testing::ThrowsMessage<ConfigError>(
                  HasSubstr("full_attention_values_from_keys: true needs v_l2_norm")));
  model = read(small());
  model.window_rotary_base = 0;
  EXPECT_THAT([&] { check_model_config(model); },
              testing::ThrowsMessage<ConfigError>(
                  HasSubstr("full_attention_kv_channels: 16 needs window_rotary_base")));
  model = read(small());
  model.full.kv_heads = 3;
  EXPECT_THAT([&] { check_model_config(model); },
              testing::ThrowsMessage<ConfigError>(
                  HasSubstr("full_attention_num_query_groups: 3 needs a divisor")));
  model = read(small());
  model.no_rope_temperature = {.scale = 0.1, .length = 4};  // of one size of heads
  EXPECT_THAT([&] { check_model_config(model); },
              testing::ThrowsMessage<ConfigError>(HasSubstr(
                  "full_attention_kv_channels: 16 needs no_rope_temperature_scale=null")));
  model = read(small());
  model.full = {.kv_heads = 1};
  model.positions = PositionKind::linear_bias;
  EXPECT_THAT([&] { check_model_config(model); },
              testing::ThrowsMessage<ConfigError>(HasSubstr(
                  "full_attention_num_query_groups: a value needs positions without alibi")));
}

TEST(Gemma4Config, ValuesFromKeysNeedMatricesOfTheirOwn) {
  ModelConfig model = read(small());
  model.family = "gpt_neox", model.output_scale = false;  // it stores query, key and value as one
  EXPECT_THAT([&] { check_model_config(model); },
              testing::ThrowsMessage<ConfigError>(HasSubstr(
                  "full_attention_values_from_keys: model family gpt_neox has no names for")));
}

}  // namespace
}  // namespace viaduct
