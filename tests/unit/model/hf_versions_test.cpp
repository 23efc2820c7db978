// The config.json that two versions of transformers write for a model of each family: the same
// model. And what exports say where the newer one has another default or another type.

#include <gmock/gmock.h>

#include <cmath>

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

/// What Viaduct makes of it, without what belongs to training elsewhere.
Json model_of(const Json& config) {
  ModelConfig model = read_hf_config(config.dump(), "config.json");
  EXPECT_THAT(model.notes, testing::IsEmpty()) << config.at("model_type");
  model.mtp_layers = 0;  // transformers 5 names them and saves no weights of them
  Json json = Json::parse(write_hf_config(model));
  json.erase("router_aux_loss_coef");
  return json;
}

TEST(HfVersions, WriteTheSameModels) {
  const Json older = configs_of("4.56"), newer = configs_of("5.24");
  EXPECT_EQ(newer.size(), model_families().size());
  for (const auto& [family, config] : newer.items())
    EXPECT_EQ(model_of(config), model_of(older.at(family))) << family;
}

std::string refusal(const Json& config) {
  try {
    (void)read_hf_config(config.dump(), "config.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(HfVersions, TheNumberOfExpertsHasSeveralNames) {
  const Json configs = configs_of("5.24");
  int families = 0;
  for (const auto& [family, stored] : configs.items()) {
    if (!read_hf_config(stored.dump(), "config.json").moe.any()) continue;
    ++families;
    for (const char* name : {"num_experts", "num_local_experts", "n_routed_experts"}) {
      Json config = stored;
      for (const char* other :
           {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
        config.erase(other);
      config[name] = 8;
      EXPECT_EQ(read_hf_config(config.dump(), "config.json").moe.experts, 8) << family << name;
      config[std::string(name) == "num_experts" ? "num_local_experts" : "num_experts"] = 4;
      EXPECT_THAT(refusal(config), HasSubstr("expected the same number of experts")) << family;
    }
  }
  EXPECT_GT(families, 10);
}

TEST(HfVersions, ValuesThatAreNotComputedAreRefused) {
  Json config = configs_of("5.24").at("gpt_oss");
  config["swiglu_alpha"] = 1.5;
  EXPECT_THAT(refusal(config), HasSubstr("swiglu_alpha 1.5 is not supported (supported: 1.702)"));
}

TEST(HfVersions, TheLimitOfGatedExpertsIsTheFiles) {
  Json config = configs_of("5.24").at("gpt_oss");
  config["swiglu_limit"] = 2.5;
  const ModelConfig model = read_hf_config(config.dump(), "config.json");
  EXPECT_EQ(model.activation_clamp, 2.5);
  EXPECT_THAT(model.notes, testing::ElementsAre(HasSubstr("swiglu_limit is 2.5; transformers 4 "
                                                          "computes with 7")));
  EXPECT_EQ(Json::parse(write_hf_config(model)).at("swiglu_limit"), 2.5);
  for (const double wrong : {0.0, -7.0}) {
    config["swiglu_limit"] = wrong;
    EXPECT_THAT(refusal(config), HasSubstr("swiglu_limit")) << wrong;
  }
}

TEST(HfVersions, DefaultsAreThoseOfTheFamily) {
  for (const auto& [family, base] : {std::pair{"mixtral", 1e6}, {"gpt_oss", 150000.0}}) {
    Json config = configs_of("5.24").at(family);
    config.at("rope_parameters").erase("rope_theta");
    EXPECT_EQ(read_hf_config(config.dump(), "config.json").rotary.base, base) << family;
    config.erase("rope_parameters");
    config.erase("rms_norm_eps");
    const ModelConfig model = read_hf_config(config.dump(), "config.json");
    EXPECT_EQ(model.rotary.base, base) << family;
    EXPECT_EQ(model.norm_eps, 1e-5) << family;
  }
}

/// Without an object transformers 5 takes the class's positions; 4.56 heeds base and null.
TEST(HfVersions, PositionsOfApertusThatTheyReadApartAreRefused) {
  Json config = configs_of("5.24").at("apertus");
  config.erase("rope_parameters");
  const std::string unsaid = write_hf_config(read_hf_config(config.dump(), "config.json"));
  config["rope_parameters"] = nullptr;
  EXPECT_EQ(write_hf_config(read_hf_config(config.dump(), "config.json")), unsaid);
  config["rope_theta"] = 12e6;  // the class's
  EXPECT_EQ(write_hf_config(read_hf_config(config.dump(), "config.json")), unsaid);
  config["rope_theta"] = 5000.0;
  EXPECT_THAT(refusal(config), HasSubstr("rope_theta is 5000 without rope_scaling"));
  config["rope_scaling"] = nullptr;
  EXPECT_THAT(refusal(config), HasSubstr("rope_scaling is null without rope_parameters"));
  config["rope_scaling"] = {{"rope_type", "default"}};
  const ModelConfig plain = read_hf_config(config.dump(), "config.json");
  EXPECT_EQ(plain.rotary.scaling, RopeScalingKind::none);
  EXPECT_EQ(plain.rotary.base, 5000);
}

TEST(HfVersions, AnEpsilonThatFp32RoundedIsTheSame) {
  Json config = configs_of("5.24").at("deepseek_v3");
  config["rms_norm_eps"] = static_cast<double>(1e-6f);
  EXPECT_EQ(read_hf_config(config.dump(), "config.json").norm_eps, 1e-6);
}

// Moonlight's: Hugging Face's code does not read the field for the norms on compressed vectors.
TEST(HfVersions, NormsOnCompressedVectorsHaveTheirOwnEpsilon) {
  Json config = configs_of("5.24").at("deepseek_v3");
  EXPECT_EQ(read_hf_config(config.dump(), "config.json").latent.norm_eps, 0) << "the same";
  config["rms_norm_eps"] = 1e-5;
  ModelConfig model = read_hf_config(config.dump(), "config.json");
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(model.latent.norm_eps, 1e-6);
  const Json written = Json::parse(write_hf_config(model));
  EXPECT_EQ(written.at("rms_norm_eps"), 1e-5);
  EXPECT_FALSE(written.contains("viaduct_fields"));
  // Another one is said beside what Hugging Face's code reads.
  model.latent.norm_eps = 1e-3;
  EXPECT_EQ(read_hf_config(write_hf_config(model), "config.json").latent.norm_eps, 1e-3);
}

TEST(HfExports, SayThatPositionsAreNotScaledWhereTheDefaultIsAScaling) {
  ModelConfig model = read_hf_config(configs_of("5.24").at("gpt_oss").dump(), "config.json");
  const int64_t width = model.rotary.width;
  model.rotary = {.width = width, .base = 150000};
  const Json json = Json::parse(write_hf_config(model));
  EXPECT_EQ(json.at("rope_parameters"), (Json{{"rope_type", "default"}, {"rope_theta", 150000.0}}));
  EXPECT_EQ(json.at("rope_scaling").at("rope_type"), "default");
  EXPECT_EQ(read_hf_config(json.dump(), "config.json").rotary.scaling, RopeScalingKind::none);
}

TEST(HfExports, HaveWholeNumbersWhereTheTypeIsAnInteger) {
  ModelConfig model = read_hf_config(configs_of("5.24").at("gemma2").dump(), "config.json");
  for (const int64_t scalar : {16, 224, 256}) {
    model.attention_scale = 1 / std::sqrt(static_cast<double>(scalar));
    const Json json = Json::parse(write_hf_config(model)).at("query_pre_attn_scalar");
    EXPECT_TRUE(json.is_number_integer()) << json;
    EXPECT_EQ(json, scalar);
  }
}

TEST(HfExports, OfLatentAttentionHaveItsOwnFieldOfPairs) {
  for (const char* family : {"deepseek_v2", "deepseek_v3"}) {
    const ModelConfig model = read_hf_config(configs_of("5.24").at(family).dump(), "config.json");
    EXPECT_TRUE(model.rotary.interleaved);
    EXPECT_FALSE(Json::parse(write_hf_config(model)).contains("rotary_interleaved")) << family;
  }
}

}  // namespace
}  // namespace viaduct
