// Fields of config.json that contradict each other, or that Hugging Face's code reads otherwise
// than they say: refused, by their names.

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

/// What transformers 5.24 writes for a small model of the family, with `fields` in their place.
ModelConfig read(const std::string& family, const std::string& fields) {
  static const Json configs =
      Json::parse(read_file(test::test_data("config/transformers_5.24.json")));
  Json config = configs.at(family);
  config.update(Json::parse(fields));
  return read_hf_config(config.dump(), "config.json");
}

std::string refusal(const std::string& family, const std::string& fields) {
  try {
    read(family, fields);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(HfConflicts, FamiliesWithExpertsListTheirLayersWithAWindow) {
  for (const char* family : {"qwen2_moe", "qwen3_moe"}) {
    const std::string on = R"("use_sliding_window": true, "sliding_window": 8)";
    EXPECT_THAT(refusal(family, "{" + on + R"(, "max_window_layers": 1, "layer_types": null})"),
                AllOf(HasSubstr("use_sliding_window is true"), HasSubstr("layer_types")));
    EXPECT_EQ(read(family, "{" + on + R"(, "layer_types":
      ["sliding_attention", "full_attention"]})")
                  .windows,
              (std::vector<int64_t>{8, 0}));
    EXPECT_EQ(refusal(family, R"({"use_sliding_window": true, "sliding_window": 0,
                                  "max_window_layers": 1, "layer_types": null})"),
              "");
  }
}

TEST(HfConflicts, AWindowThatIsOffIsNamedByItsSwitch) {
  const std::string layers = R"("layer_types": ["full_attention", "sliding_attention"])";
  for (const char* family : {"qwen2", "qwen3_moe", "smollm3"}) {
    EXPECT_THAT(
        refusal(family, R"({"use_sliding_window": false, "sliding_window": 8, )" + layers + "}"),
        HasSubstr("layer 1 slides (layer_types), but use_sliding_window is false"))
        << family;
  }
  EXPECT_THAT(
      refusal("qwen2", R"({"use_sliding_window": true, "sliding_window": 0, )" + layers + "}"),
      HasSubstr("layer 1 slides, but sliding_window is 0"));
}

TEST(HfConflicts, Gemma3HasNoSoftCapOnItsAttention) {
  EXPECT_THAT(refusal("gemma3_text", R"({"attn_logit_softcapping": 50.0})"),
              AllOf(HasSubstr("attn_logit_softcapping is 50"), HasSubstr("does not apply it")));
  EXPECT_EQ(read("gemma2", R"({"attn_logit_softcapping": 30.0})").attention_softcap, 30);
  // A model of Viaduct may have one: it is a field of its own.
  ModelConfig capped = read("gemma3_text", "{}");
  capped.attention_softcap = 20;
  EXPECT_EQ(read_hf_config(write_hf_config(capped), "config.json").attention_softcap, 20);
}

TEST(HfConflicts, BothNamesOfTheActivationOfGemmaSayTheSame) {
  EXPECT_THAT(
      refusal("gemma", R"({"hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"})"),
      AllOf(HasSubstr("hidden_act gelu"), HasSubstr("hidden_activation gelu_pytorch_tanh")));
  EXPECT_EQ(
      refusal("gemma", R"({"hidden_act": "gelu_new", "hidden_activation": "gelu_pytorch_tanh"})"),
      "");
  EXPECT_EQ(read("gemma", R"({"hidden_act": "gelu", "hidden_activation": null})").activation,
            ActivationKind::gelu_tanh);
}

TEST(HfConflicts, BothNamesOfTheStretchOfPositionsSayTheSame) {
  const auto both = [](const std::string& scaling, const std::string& parameters) {
    return R"({"rope_scaling": )" + scaling + R"(, "rope_parameters": )" + parameters + "}";
  };
  const std::string linear = R"({"rope_type": "linear", "factor": 2.0})",
                    based = R"({"type": "linear", "factor": 2.0, "rope_theta": 10000.0})";
  for (const auto& [scaling, parameters] :
       {std::pair(linear, based), std::pair(based, linear), std::pair(linear, linear)})
    EXPECT_EQ(read("llama", both(scaling, parameters)).rotary.factor, 2) << scaling;
  for (const std::string other :
       {R"({"rope_type": "default"})", R"({"rope_type": "linear", "factor": 4.0})",
        R"({"rope_type": "yarn", "factor": 2.0})"}) {
    for (const std::string& fields : {both(linear, other), both(other, linear)}) {
      EXPECT_THAT(refusal("llama", fields), HasSubstr("rope_scaling and rope_parameters differ"))
          << fields;
    }
  }
  EXPECT_THAT(refusal("llama", both(R"({"rope_type": "default", "rope_theta": 500.0})",
                                    R"({"rope_type": "default", "rope_theta": 300.0})")),
              HasSubstr("rope_scaling and rope_parameters differ"));
  const std::string part = R"({"rope_type": "default", "partial_rotary_factor": )";
  EXPECT_THAT(refusal("stablelm", both(part + "0.5}", part + "0.25}")),
              HasSubstr("rope_scaling and rope_parameters differ"));
  EXPECT_EQ(refusal("stablelm", both(part + "0.5}", part + "0.5}")), "");
  // One of them may be for each kind of layer.
  const std::string yarn = R"({"rope_type": "yarn", "factor": 4.0})";
  EXPECT_EQ(refusal("olmo3", both(yarn, R"({"full_attention": )" + yarn + "}")), "");
  EXPECT_THAT(refusal("olmo3", both(linear, R"({"full_attention": )" + yarn + "}")),
              HasSubstr("rope_scaling and rope_parameters differ"));
}

TEST(HfConflicts, KindsOfLayersHaveTheirOwnRopeParameters) {
  for (const char* family : {"olmo3", "gemma3_text"}) {
    EXPECT_THAT(
        refusal(family, R"({"rope_parameters": {"rope_type": "default", "rope_theta": 10.0}})"),
        AllOf(HasSubstr("rope_parameters"), HasSubstr("members full_attention"),
              HasSubstr("sliding_attention")))
        << family;
  }
}

TEST(HfConflicts, FieldsOfPhi4MiniAreReadAtTheirValues) {
  EXPECT_EQ(write_hf_config(read("phi3", "{}")),
            write_hf_config(read("phi3", R"({"full_attn_mod": 1, "interpolate_factor": 1,
                                             "lm_head_bias": false})")));
  EXPECT_THAT(refusal("phi3", R"({"full_attn_mod": 2})"), HasSubstr("full_attn_mod is 2"));
  EXPECT_THAT(refusal("phi3", R"({"interpolate_factor": 2})"),
              HasSubstr("interpolate_factor is 2"));
  EXPECT_THAT(refusal("phi3", R"({"lm_head_bias": true})"), HasSubstr("lm_head_bias is true"));
}

}  // namespace
}  // namespace viaduct
