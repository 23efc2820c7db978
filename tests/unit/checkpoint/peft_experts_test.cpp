// Adapters of experts in PEFT's files: fused, as transformers 5 has them, and by name.

#include "checkpoint/peft_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/merged_weights.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/golden.h"
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

const std::string kExperts = "base_model.model.model.layers.0.mlp.experts";

const ModelConfig& model() {
  static const ModelConfig config =
      read_model_config(resolve_model_folder(test_data("golden/mixtral/model")));
  return config;
}

std::filesystem::path golden(const std::string& name) {
  return test_data("golden") / name / "adapter";
}

json config_of(const std::filesystem::path& folder) {
  return json::parse(read_file(folder / kAdapterConfigFile));
}

/// What is written of an adapter that was read.
std::filesystem::path written(const TemporaryFolder& folder, const PeftAdapter& adapter) {
  write_peft_folder(adapter, model(), folder / "written");
  return folder / "written";
}

TEST(PeftExperts, OneOfSeveralIsRowsOfAAndEveryEthColumnOfB) {
  const PeftAdapter adapter = open_adapter(golden("lora_experts"), model());
  const SafetensorsFile file(golden("lora_experts") / kAdapterWeightsFile);
  const Tensor all_a = file.tensor(kExperts + ".lora_A.weight"),
               all_b = file.tensor(kExperts + ".lora_B.weight");
  const std::string one = "base_model.model.model.layers.0.block_sparse_moe.experts.1.w2";
  const Tensor a = adapter.tensors->tensor(one + ".lora_A.weight"),
               b = adapter.tensors->tensor(one + ".lora_B.weight");
  ASSERT_EQ(a.shape(), (Shape{3, 64}));
  ASSERT_EQ(b.shape(), (Shape{64, 3}));
  EXPECT_EQ(a.data<float>()[64 + 5], all_a.data<float>()[4 * 64 + 5]);
  EXPECT_EQ(b.data<float>()[7 * 3 + 2], all_b.data<float>()[7 * 12 + 2 * 4 + 1]);
  EXPECT_TRUE(adapter.settings.fused_experts);
}

TEST(PeftExperts, FusedOnesAreWrittenAsTheyWereRead) {
  const TemporaryFolder folder;
  const auto to = written(folder, open_adapter(golden("lora_experts"), model()));
  const SafetensorsFile before(golden("lora_experts") / kAdapterWeightsFile),
      after(to / kAdapterWeightsFile);
  EXPECT_EQ(after.tensors().size(), before.tensors().size());
  for (const TensorInfo& info : before.tensors()) {
    ASSERT_TRUE(after.contains(info.name)) << info.name;
    EXPECT_EQ(bytes_of(after.tensor(info.name)), bytes_of(before.tensor(info.name))) << info.name;
  }
  const json config = config_of(to);
  EXPECT_EQ(config.at("r"), 3);
  EXPECT_EQ(config.at("lora_alpha"), 6);
  EXPECT_EQ(config.at("rank_pattern").size(), 0u);
  EXPECT_EQ(config.at("target_parameters").size(), 8u);  // two of each of four layers
}

TEST(PeftExperts, GateAndUpOfTheirOwnBecomeOneOfTwiceTheRank) {
  const TemporaryFolder folder;
  const auto to = written(folder, open_adapter(golden("lora_experts_v4"), model()));
  const SafetensorsFile file(to / kAdapterWeightsFile);
  EXPECT_EQ(file.find(kExperts + ".base_layer.lora_A.weight")->shape, (Shape{16, 64}));
  EXPECT_EQ(file.find(kExperts + ".base_layer.lora_B.weight")->shape, (Shape{128, 16}));
  EXPECT_EQ(file.find(kExperts + ".lora_A.weight")->shape, (Shape{8, 64}));
  EXPECT_EQ(config_of(to).at("rank_pattern").at("model.layers.0.mlp.experts.gate_up_proj"), 4);
  EXPECT_EQ(config_of(to).at("alpha_pattern").at("model.layers.0.mlp.experts.gate_up_proj"), 12);

  // The merged model is the same.
  const auto merged = [](const std::filesystem::path& adapter) {
    return merge_adapter(open_weights(resolve_model_folder(test_data("golden/mixtral/model"))),
                         open_adapter(adapter, model()), model(), std::nullopt);
  };
  const auto named = merged(golden("lora_experts_v4")), fused = merged(to);
  for (const char* weight : {"w1", "w2", "w3"}) {
    const std::string name =
        std::string("model.layers.1.block_sparse_moe.experts.3.") + weight + ".weight";
    EXPECT_LE(test::relative_error(fused->tensor(name), named->tensor(name)), 1e-6) << name;
  }
}

TEST(PeftExperts, OfGraniteStandInItsOwnBlock) {
  const ModelConfig granite =
      read_model_config(resolve_model_folder(test_data("golden/granitemoe/model")));
  const int64_t experts = granite.moe.experts;
  const TemporaryFolder folder;
  std::map<std::string, Tensor> tensors;
  const std::string block = "model.layers.0.block_sparse_moe.", prefix = kAdapterPrefix + block;
  tensors[prefix + "experts" + kAdapterA] =
      host_tensor(DType::f32, {experts * 3, granite.moe.feed_forward});
  tensors[prefix + "experts" + kAdapterB] = host_tensor(DType::f32, {granite.hidden, 3 * experts});
  tensors[prefix + "router" + kAdapterA] = host_tensor(DType::f32, {3, granite.hidden});
  tensors[prefix + "router" + kAdapterB] = host_tensor(DType::f32, {experts, 3});
  json config = config_of(golden("lora_experts"));
  config["target_modules"] = json::array();
  config["target_parameters"] = {block + "experts.down_proj", block + "router.weight"};
  write_file_atomically(folder / kAdapterConfigFile, config.dump());
  write_safetensors(folder / kAdapterWeightsFile, tensors);
  const PeftAdapter adapter = open_adapter(folder.path(), granite);
  EXPECT_TRUE(adapter.settings.modules.contains(block + "experts.3.down_proj"));
  EXPECT_TRUE(adapter.settings.modules.contains(block + "router.layer"));
}

TEST(PeftExperts, RoutersThatPeftAdaptsAsParametersAreRead) {
  const TemporaryFolder folder;
  std::map<std::string, Tensor> tensors;
  const std::string module = "base_model.model.model.layers.0.mlp.gate";
  tensors[module + kAdapterA] = host_tensor(DType::f32, {3, model().hidden});
  tensors[module + kAdapterB] = host_tensor(DType::f32, {model().moe.experts, 3});
  json config = config_of(golden("lora_experts"));
  config["target_modules"] = json::array();
  config["target_parameters"] = {"layers.0.mlp.gate.weight"};
  write_file_atomically(folder / kAdapterConfigFile, config.dump());
  write_safetensors(folder / kAdapterWeightsFile, tensors);
  const PeftAdapter adapter = open_adapter(folder.path(), model());
  EXPECT_TRUE(adapter.settings.modules.contains("model.layers.0.block_sparse_moe.gate"));
  EXPECT_FALSE(adapter.settings.fused_experts);
}

TEST(PeftExperts, WhatPeftCannotHoldIsNotWritten) {
  const TemporaryFolder folder;
  PeftAdapter adapter = open_adapter(golden("lora_experts_v4"), model());
  adapter.settings.dropout = 0.1;
  EXPECT_THAT([&] { written(folder, adapter); }, ThrowsMessage<ConfigError>(HasSubstr("dropout")));
  adapter.settings.dropout = 0;
  std::erase_if(adapter.settings.modules,
                [](const auto& module) { return module.first.ends_with(".w1"); });
  EXPECT_THAT([&] { written(folder, adapter); }, ThrowsMessage<ConfigError>(HasSubstr("together")));
}

TEST(PeftExperts, WhatDoesNotFitIsRefused) {
  const TemporaryFolder folder;
  const SafetensorsFile file(golden("lora_experts") / kAdapterWeightsFile);
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : file.tensors()) tensors[info.name] = file.tensor(info.name);
  json config = config_of(golden("lora_experts"));
  const auto open = [&] {
    write_file_atomically(folder / kAdapterConfigFile, config.dump());
    write_safetensors(folder / kAdapterWeightsFile, tensors);
    return open_adapter(folder.path(), model());
  };
  tensors[kExperts + ".lora_A.weight"] = host_tensor(DType::f32, {13, 64});
  EXPECT_THAT([&] { open(); }, ThrowsMessage<IoError>(HasSubstr("[4 · r, 64]")));
  config["target_parameters"] = {"mlp.experts.bias"};
  EXPECT_THAT([&] { open(); }, ThrowsMessage<ConfigError>(HasSubstr("target_parameters")));
  // Of one target there is no inner layer: the settings say which it is.
  std::erase_if(tensors, [](const auto& entry) {
    return entry.first.find("base_layer") != std::string::npos;
  });
  config["target_parameters"] = {"mlp.experts.down_proj", "mlp.experts.gate_up_proj"};
  tensors[kExperts + ".lora_A.weight"] = host_tensor(DType::f32, {12, 64});
  EXPECT_THAT([&] { open(); },
              ThrowsMessage<IoError>(HasSubstr(kExperts + ".base_layer.lora_A.weight")));
  config["target_parameters"] = json::array();
  EXPECT_THAT([&] { open(); }, ThrowsMessage<IoError>(HasSubstr("names none of")));
  config["target_parameters"] = {"mlp.experts.down_proj"};
  EXPECT_FALSE(open().settings.of("model.layers.0.block_sparse_moe.experts.0.gate_up_proj"));
}

}  // namespace
}  // namespace viaduct
