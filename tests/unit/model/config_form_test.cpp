// The two spellings of config.json: what transformers 4 and 5 write becomes what the other writes.

#include "model/config_form.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/family.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json configs_of(const std::string& version) {
  return Json::parse(read_file(test::test_data("config") / ("transformers_" + version + ".json")));
}

Json in_form(const Json& config, ConfigForm form) {
  return Json::parse(in_config_form(config.dump(2), form));
}

TEST(ConfigForm, EveryFamilyIsTheSameModelInBoth) {
  const Json configs = configs_of("5.24");
  for (const auto& [family, config] : configs.items()) {
    if (model_family(family).since_version5) continue;
    const Json older = in_form(config, ConfigForm::version4);  // compares the models
    EXPECT_FALSE(older.contains("rope_parameters")) << family;
    EXPECT_FALSE(older.contains("dtype")) << family;
    const Json again = in_form(older, ConfigForm::version5);
    EXPECT_FALSE(again.contains("rope_scaling") && again.contains("rope_parameters")) << family;
    EXPECT_EQ(again.contains("rope_parameters"), config.contains("rope_parameters")) << family;
    EXPECT_FALSE(again.contains("torch_dtype")) << family;
  }
}

TEST(ConfigForm, OfAModelWithImagesTheTextModelChanges) {
  for (const char* name : {"llava_clip", "gemma3_images"}) {
    SCOPED_TRACE(name);
    const Json five =
        Json::parse(read_file(test::test_data("golden") / name / "model" / "config.json"));
    const Json four = in_form(five, ConfigForm::version4);  // compares the models
    EXPECT_FALSE(four.at("text_config").contains("rope_parameters"));
    EXPECT_TRUE(four.at("text_config").contains("rope_theta"));
    EXPECT_EQ(four.at("torch_dtype"), "float32");
    EXPECT_EQ(four.at("vision_config"), five.at("vision_config"));
    const Json again = in_form(four, ConfigForm::version5);
    EXPECT_TRUE(again.at("text_config").contains("rope_parameters"));
    EXPECT_EQ(again.at("dtype"), "float32");
  }
}

TEST(ConfigForm, RotaryPositionsAndTheFormatHaveTheirNames) {
  const Json four{{"model_type", "llama"},
                  {"vocab_size", 9},
                  {"hidden_size", 8},
                  {"intermediate_size", 8},
                  {"num_hidden_layers", 1},
                  {"num_attention_heads", 2},
                  {"max_position_embeddings", 64},
                  {"rope_theta", 500.0},
                  {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
                  {"torch_dtype", "bfloat16"}};
  const Json five = in_form(four, ConfigForm::version5);
  EXPECT_EQ(five.at("rope_parameters"),
            (Json{{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 500.0}}));
  EXPECT_EQ(five.at("dtype"), "bfloat16");
  EXPECT_FALSE(five.contains("rope_theta"));
  const Json again = in_form(five, ConfigForm::version4);
  EXPECT_EQ(again.at("rope_theta"), 500.0);
  EXPECT_EQ(again.at("rope_scaling"), (Json{{"rope_type", "linear"}, {"factor", 2.0}}));
  EXPECT_EQ(in_form(four, ConfigForm::version4), four);  // as it is
}

TEST(ConfigForm, LayersWithAWindowHaveABaseOfTheirOwn) {
  const Json five = configs_of("5.24").at("gemma3_text");
  const Json four = in_form(five, ConfigForm::version4);
  EXPECT_EQ(four.at("rope_local_base_freq"), 10000.0);
  EXPECT_EQ(four.at("rope_theta"), 1e6);
  EXPECT_EQ(in_form(four, ConfigForm::version5).at("rope_parameters"), five.at("rope_parameters"));
}

TEST(ConfigForm, Version4KeepsAFamilysOwnNames) {
  const Json five = configs_of("5.24").at("gpt_neox");
  const Json four = in_form(five, ConfigForm::version4);
  EXPECT_EQ(four.at("rotary_emb_base"), 20000);
  EXPECT_EQ(four.at("rotary_pct"), 0.5);
  EXPECT_FALSE(four.contains("rope_theta"));
  EXPECT_EQ(in_form(four, ConfigForm::version5), five);
}

TEST(ConfigForm, FamiliesThatVersion4LacksAreNamed) {
  const Json configs = configs_of("5.24");
  for (const char* family : {"cwm", "gemma4_text", "ministral3", "solar_open"}) {
    EXPECT_THAT([&] { in_form(configs.at(family), ConfigForm::version4); },
                testing::ThrowsMessage<ConfigError>(
                    HasSubstr("transformers 4 has no models of family " + std::string(family))));
    EXPECT_EQ(in_form(configs.at(family), ConfigForm::version5), configs.at(family)) << family;
  }
}

}  // namespace
}  // namespace viaduct
