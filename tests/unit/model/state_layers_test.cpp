// Folders with layers that pass a state along the row are refused by the layer's name.

#include "model/state_layers.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "model/family.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& config) {
  try {
    (void)read_hf_config(config, "config.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(StateLayers, AFolderIsRefusedByTheirName) {
  for (const auto& [type, layer] : {std::pair{"mamba2", "Mamba 2"},
                                    {"falcon_h1", "Mamba 2"},
                                    {"qwen3_next", "gated delta nets"},
                                    {"kimi_linear", "Kimi delta attention"},
                                    {"recurrent_gemma", "RG-LRU"},
                                    {"lfm2", "short convolutions"}}) {
    const std::string config =
        R"({"model_type": ")" + std::string(type) + R"(", "hidden_size": 64})";
    EXPECT_THAT(refusal(config), AllOf(HasSubstr("config.json: model_type " + std::string(type)),
                                       HasSubstr(layer), HasSubstr("a state along the row")));
  }
}

TEST(StateLayers, ATypeWithATextModelToo) {
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_5", "text_config": {"hidden_size": 64}})"),
              HasSubstr("gated delta nets"));
}

TEST(StateLayers, NoFamilyHasThem) {
  for (const ModelFamily& family : model_families())
    EXPECT_EQ(state_layers_of(family.model_type), "") << family.model_type;
}

}  // namespace
}  // namespace viaduct
