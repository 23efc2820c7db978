// Adapters of routers in PEFT's files: parameters, whose names ranks and scales have to match.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "model/adapter_modules.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::bytes_of;
using test::TemporaryFolder;
using test::test_data;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Case {
  std::string model, router, parameter;  // of the first layer that has experts
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.model;
}

/// An adapter of a router, of rank 2 and alpha 6, and of q_proj or what is in its place, of rank 3
/// and alpha 5, as a run has them.
class PeftRouters : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    model_ =
        read_model_config(resolve_model_folder(test_data("golden") / GetParam().model / "model"));
    const std::string other =
        model_.family == "deepseek_v3" ? "self_attn.q_a_proj" : "self_attn.q_proj";
    for (const AdaptableModule& module : adaptable_modules(model_)) {
      const bool routes = module.name == GetParam().router;
      if (!routes && !module.name.ends_with(other)) continue;
      settings_.modules[module.name] = {routes ? 2 : 3, routes ? 6.0 : 5.0, false};
      const int64_t rank = routes ? 2 : 3;
      tensors_[kAdapterPrefix + module.name + kAdapterA] = filled({rank, module.in});
      tensors_[kAdapterPrefix + module.name + kAdapterB] = filled({module.out, rank});
    }
    ASSERT_TRUE(settings_.of(GetParam().router) != nullptr);
  }
  static Tensor filled(const Shape& shape) {
    const Tensor tensor = host_tensor(DType::f32, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.data<float>()[i] = static_cast<float>(i % 7);
    return tensor;
  }
  PeftAdapter adapter() {
    std::filesystem::create_directories(folder_ / "own");
    write_file_atomically(folder_ / "own" / kAdapterConfigFile,
                          peft_config_text(settings_, model_, "models/base"));
    write_safetensors(folder_ / "own" / kAdapterWeightsFile, tensors_);
    return open_adapter(folder_ / "own", model_);
  }

  TemporaryFolder folder_;
  ModelConfig model_;
  AdapterSettings settings_;
  std::map<std::string, Tensor> tensors_;
};

TEST_P(PeftRouters, AreParametersThere) {
  const PeftAdapter before = adapter();
  EXPECT_EQ(before.settings.modules, settings_.modules);
  write_peft_folder(before, model_, folder_ / "peft");

  const auto& [name, router, parameter] = GetParam();
  const json config = json::parse(read_file(folder_ / "peft" / kAdapterConfigFile));
  EXPECT_EQ(config.at("target_parameters"), json::array({parameter}));
  EXPECT_EQ(config.at("target_modules").size(), 1u);
  EXPECT_EQ(config.at("r"), 3);
  EXPECT_EQ(config.at("lora_alpha"), 5);
  EXPECT_EQ(config.at("rank_pattern"), json::object({{parameter, 2}}));
  EXPECT_EQ(config.at("alpha_pattern"), json::object({{parameter, 6}}));
  EXPECT_EQ(config.at("base_model_name_or_path"), "models/base");
  const SafetensorsFile file(folder_ / "peft" / kAdapterWeightsFile);
  const std::string there = kAdapterPrefix + module_of_parameter(parameter);
  ASSERT_TRUE(file.contains(there + kAdapterB));
  EXPECT_EQ(file.tensors().size(), tensors_.size());
  EXPECT_EQ(bytes_of(file.tensor(there + kAdapterA)),
            bytes_of(tensors_.at(kAdapterPrefix + router + kAdapterA)));

  const PeftAdapter again = open_adapter(folder_ / "peft", model_);
  EXPECT_EQ(again.settings.modules, settings_.modules);
  EXPECT_TRUE(again.router_parameters);
  EXPECT_FALSE(again.settings.fused_experts);
}

TEST_P(PeftRouters, HaveNoDropoutThere) {
  settings_.dropout = 0.1;
  EXPECT_THAT([&] { write_peft_folder(adapter(), model_, folder_ / "peft"); },
              ThrowsMessage<ConfigError>(HasSubstr("no dropout (0.1)")));
}

INSTANTIATE_TEST_SUITE_P(
    Families, PeftRouters,
    testing::Values(
        Case{"mixtral", "model.layers.0.block_sparse_moe.gate", "model.layers.0.mlp.gate.weight"},
        Case{"qwen2_moe", "model.layers.1.mlp.gate", "model.layers.1.mlp.gate.weight"},
        Case{"qwen3_moe", "model.layers.1.mlp.gate", "model.layers.1.mlp.gate.weight"},
        Case{"deepseek_v3", "model.layers.1.mlp.gate", "model.layers.1.mlp.gate.weight"},
        Case{"phimoe", "model.layers.0.block_sparse_moe.gate", "model.layers.0.mlp.router.weight"},
        Case{"gpt_oss", "model.layers.0.mlp.router", "model.layers.0.mlp.router.weight"},
        Case{"granitemoe", "model.layers.0.block_sparse_moe.router.layer",
             "model.layers.0.block_sparse_moe.router.weight"}),
    [](const auto& info) { return info.param.model; });

}  // namespace
}  // namespace viaduct
