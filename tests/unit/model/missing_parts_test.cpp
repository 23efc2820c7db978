// Folders of families of which one part is not implemented are refused by that part's name.

#include "model/missing_parts.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "model/family.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(MissingParts, AFolderIsRefusedByTheirName) {
  for (const auto& [type, part] : {std::pair{"codegen", "qkv_proj"},
                                   {"persimmon", "qk_layernorm"},
                                   {"xglm", "positions by sines and cosines"}}) {
    const std::string config =
        R"({"model_type": ")" + std::string(type) + R"(", "hidden_size": 64})";
    std::string refusal;
    try {
      (void)read_hf_config(config, "config.json");
    } catch (const ConfigError& error) {
      refusal = error.what();
    }
    EXPECT_THAT(refusal,
                AllOf(HasSubstr("config.json: model_type " + std::string(type)), HasSubstr(part)));
  }
}

TEST(MissingParts, NoFamilyHasThem) {
  for (const ModelFamily& family : model_families())
    EXPECT_EQ(missing_part_of(family.model_type), "") << family.model_type;
}

}  // namespace
}  // namespace viaduct
