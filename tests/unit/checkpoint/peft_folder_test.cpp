// Adapters of PEFT: read, written, merged, refused.

#include "checkpoint/peft_folder.h"

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
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

ModelConfig model_of(const std::string& name) {
  return read_model_config(resolve_model_folder(test_data("golden") / name / "model"));
}

const std::string kQ = "model.layers.0.self_attn.q_proj";

/// PEFT's folder of `lora_llama`, changed.
class PeftFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto from = test_data("golden/lora_llama/adapter");
    config_ = json::parse(read_file(from / kAdapterConfigFile));
    const SafetensorsFile file(from / kAdapterWeightsFile);
    for (const TensorInfo& info : file.tensors()) tensors_[info.name] = file.tensor(info.name);
  }
  PeftAdapter open(const std::string& model = "llama") {
    write_file_atomically(folder_ / kAdapterConfigFile, config_.dump());
    write_safetensors(folder_ / kAdapterWeightsFile, tensors_);
    return open_adapter(folder_.path(), model_of(model));
  }
  template <class E>
  void expect_refused(const std::string& what, const std::string& model = "llama") {
    EXPECT_THAT(([&] { open(model); }), ThrowsMessage<E>(HasSubstr(what)));
  }
  /// A setting of the configuration.
  void expect_setting_refused(const std::string& name, const json& value,
                              const std::string& what = "is not supported") {
    const json before = config_;
    config_[name] = value;
    EXPECT_THAT(([&] { open(); }),
                ThrowsMessage<ConfigError>(AllOf(HasSubstr(name), HasSubstr(what))));
    config_ = before;
  }

  TemporaryFolder folder_;
  json config_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(PeftFolder, TensorsSayWhichLayersHaveAnAdapter) {
  const PeftAdapter adapter = open();
  EXPECT_EQ(adapter.settings.modules.size(), 28u);  // seven of each of four layers
  EXPECT_EQ(adapter.settings.modules.at(kQ), (AdapterShape{8, 16, false}));
  EXPECT_EQ(adapter.settings.modules.at(kQ).scale(), 2);
  std::erase_if(tensors_,
                [](const auto& entry) { return entry.first.find(kQ) == std::string::npos; });
  config_["target_modules"] = {kQ};
  EXPECT_EQ(open().settings.modules.size(), 1u);
}

TEST_F(PeftFolder, PatternsAndRankStabilizationCount) {
  config_["use_rslora"] = true;
  config_["alpha_pattern"] = {{"layers\\.0\\..*q_proj", 4}, {"q_proj", 32}};
  const PeftAdapter adapter = open();
  EXPECT_DOUBLE_EQ(adapter.settings.modules.at(kQ).scale(), 4 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(adapter.settings.modules.at("model.layers.1.self_attn.q_proj").scale(),
                   32 / std::sqrt(8.0));
  config_["rank_pattern"] = {{"q_proj", 4}};
  expect_refused<IoError>("has rank 8, but adapter_config.json says 4");
  config_["rank_pattern"] = {{"(", 4}};
  expect_refused<ConfigError>("not a regular expression");
}

TEST_F(PeftFolder, IsWrittenAsItWasRead) {
  const PeftAdapter adapter = open();
  PeftAdapter copy = open();
  copy.config = peft_config_text(adapter.settings, model_of("llama"), "models/llama");
  write_peft_folder(copy, model_of("llama"), folder_ / "copy");
  const PeftAdapter again = open_adapter(folder_ / "copy", model_of("llama"));
  EXPECT_EQ(again.settings.modules, adapter.settings.modules);
  for (const auto& [name, tensor] : tensors_)
    EXPECT_EQ(bytes_of(again.tensors->tensor(name)), bytes_of(tensor)) << name;
  const json config = json::parse(again.config);
  EXPECT_EQ(config.at("r"), 8);
  EXPECT_EQ(config.at("lora_alpha"), 16);
  EXPECT_EQ(config.at("base_model_name_or_path"), "models/llama");
  EXPECT_EQ(config.at("target_modules").size(), 7u);
  EXPECT_THAT([&] { write_peft_folder(copy, model_of("llama"), folder_ / "copy"); },
              ThrowsMessage<ConfigError>(HasSubstr("not empty")));
}

TEST_F(PeftFolder, SettingsThatAreNotSupportedAreRefusedByName) {
  expect_setting_refused("peft_type", "VERA");
  expect_setting_refused("peft_type", nullptr, "has no peft_type");
  expect_setting_refused("bias", "all");
  expect_setting_refused("lora_bias", true);
  expect_setting_refused("use_qalora", true);
  expect_setting_refused("layer_replication", json::array({json::array({0, 2})}));
  expect_setting_refused("trainable_token_indices", json::array({1}));
  expect_setting_refused("alora_invocation_tokens", json::array({1}));
  expect_setting_refused("target_parameters", json::array({"experts.gate_up_proj"}));
  expect_setting_refused("init_lora_weights", "pissa_niter_16", "changed the model's own weights");
  expect_setting_refused("init_lora_weights", "loftq", "changed the model's own weights");
  expect_setting_refused("something_new", 1);
  config_["init_lora_weights"] = "gaussian";
  config_["lora_dropout"] = 0.05;
  EXPECT_EQ(open().settings.dropout, 0.05);
  config_["lora_dropout"] = 1;
  expect_refused<IoError>("lora_dropout");
}

TEST_F(PeftFolder, MagnitudesAreThoseOfDora) {
  const ModelConfig model = model_of("llama");
  PeftAdapter adapter = open_adapter(test_data("golden/dora_llama/adapter"), model);
  EXPECT_TRUE(adapter.settings.magnitudes);
  EXPECT_EQ(adapter.settings.modules.size(), 12u);  // three of each of four layers
  adapter.config = peft_config_text(adapter.settings, model, "");
  EXPECT_EQ(json::parse(adapter.config).at("use_dora"), true);
  write_peft_folder(adapter, model, folder_ / "copy");
  EXPECT_TRUE(open_adapter(folder_ / "copy", model).settings.magnitudes);
  config_["use_dora"] = true;
  expect_refused<IoError>(".lora_magnitude_vector and 24 more are missing (28 tensors of");
}

TEST_F(PeftFolder, SavedModulesTrainBesideTheAdapters) {
  const std::string norm = "base_model.model.model.norm.weight";
  tensors_[norm] = host_tensor(DType::f32, {64});
  expect_refused<IoError>(norm);  // nothing says it
  config_["modules_to_save"] = {"norm"};
  const PeftAdapter adapter = open();
  EXPECT_EQ(adapter.settings.trained, std::set<std::string>{"model.norm"});
  const json config = json::parse(peft_config_text(adapter.settings, model_of("llama"), ""));
  EXPECT_EQ(config.at("modules_to_save"), json({"model.norm"}));
  const auto merged =
      merge_adapter(open_weights(resolve_model_folder(test_data("golden/llama/model"))), open(),
                    model_of("llama"), std::nullopt);
  EXPECT_EQ(merged->tensor("model.norm.weight").data<float>()[0], 0);
  config_["modules_to_save"] = {"norm", "lm_head"};
  expect_refused<IoError>("has no tensor of lm_head");
}

TEST_F(PeftFolder, WhatTrainsWithPeftAndNotHereIsNamed) {
  const json before = config_;
  const auto all = tensors_;
  config_["modules_to_save"] = {"v_proj"};
  tensors_["base_model.model.model.layers.0.self_attn.v_proj.weight"] =
      host_tensor(DType::f32, {64, 64});
  expect_refused<ConfigError>("modules_to_save has v_proj");
  tensors_ = all;
  config_["modules_to_save"] = {"lm_head"};
  tensors_["base_model.model.lm_head.weight"] = host_tensor(DType::f32, {320, 64});
  expect_refused<ConfigError>("modules_to_save has lm_head, which is the token table",
                              "llama_tied");
  config_ = before;
  config_["target_modules"] = {"q_proj", "lm_head"};
  expect_refused<ConfigError>("target_modules has lm_head: adapters of embeddings and heads");
  tensors_ = all;
  tensors_["base_model.model.lm_head.lora_A.weight"] = host_tensor(DType::f32, {8, 64});
  expect_refused<ConfigError>("has an adapter of lm_head: those of embeddings and heads");
}

TEST_F(PeftFolder, TensorsThatDoNotFitAreRefused) {
  const auto all = tensors_;
  const std::string a = kAdapterPrefix + kQ + kAdapterA, b = kAdapterPrefix + kQ + kAdapterB;
  tensors_.erase(b);
  expect_refused<IoError>(b + " is missing");
  tensors_ = all;
  tensors_[a] = host_tensor(DType::f32, {8, 60});
  expect_refused<IoError>("the model's weight is [64, 64]");
  tensors_ = all;
  tensors_["base_model.model.model.layers.0.self_attn.q_prej.lora_A.weight"] = all.at(a);
  expect_refused<IoError>("no linear layer of the model's blocks; nearest: " + kQ);
  tensors_ = all;
  tensors_["base_model.model." + kQ + ".lora_magnitude_vector"] = host_tensor(DType::f32, {64});
  expect_refused<IoError>("DoRA");
  tensors_ = all;
  tensors_["lm_head.weight"] = host_tensor(DType::f32, {320, 64});
  expect_refused<IoError>("nothing that adapter_config.json explains");
  tensors_.clear();
  expect_refused<IoError>("no tensors");
}

TEST_F(PeftFolder, TensorsThatTheSettingsLeaveOutAreRefused) {
  const std::string k = "model.layers.0.self_attn.k_proj";
  const json all = config_.at("target_modules");
  config_["target_modules"] = {"q_proj", "v_proj"};
  expect_refused<IoError>("target_modules of adapter_config.json leaves that layer out");
  config_["target_modules"] = "model\\.layers\\.\\d+\\.mlp\\..*";
  expect_refused<IoError>("target_modules of");
  config_["target_modules"] = all;
  config_["layers_to_transform"] = {0, 1};
  expect_refused<IoError>("model.layers.2.mlp.down_proj.lora_A.weight, but layers_to_transform");
  config_["layers_pattern"] = "blocks";
  expect_refused<IoError>("layers_to_transform");
  config_["layers_to_transform"] = "0";
  expect_refused<IoError>("expected a whole number");
  config_["layers_to_transform"] = {0, 1, 2, 3};
  config_["layers_pattern"] = "layers";
  EXPECT_EQ(open().settings.modules.size(), 28u);
  config_["exclude_modules"] = {k};
  expect_refused<IoError>(k + ".lora_A.weight, but exclude_modules");
  config_.erase("exclude_modules");
  // A regular expression of whole names, PEFT's word for all layers, and one that only Python
  // reads.
  for (const char* text : {"model\\.layers\\.[0-3]\\..*", "all-linear", "(?i)MODEL.*"}) {
    config_["target_modules"] = text;
    EXPECT_EQ(open().settings.modules.size(), 28u) << text;
  }
}

TEST_F(PeftFolder, ValuesThatAreNotFiniteAreRefusedByName) {
  const std::string name = kAdapterPrefix + kQ + kAdapterB;
  const Tensor b = host_tensor(DType::f32, {64, 8});
  std::fill_n(b.data<float>(), b.elements(), 0.5f);
  b.data<float>()[9] = std::numeric_limits<float>::quiet_NaN();
  tensors_[name] = b;
  expect_refused<IoError>(name + ": 1 of 512 values is NaN or infinite, the first at element 9");
  b.data<float>()[9] = b.data<float>()[10] = -std::numeric_limits<float>::infinity();
  expect_refused<IoError>(name + ": 2 of 512 values are NaN or infinite");
  // The two bytes of BF16 that are infinity.
  const Tensor half = host_tensor(DType::bf16, {64, 8});
  std::fill_n(static_cast<uint16_t*>(half.raw()), half.elements(), uint16_t{0x3f80});
  tensors_[name] = half;
  EXPECT_EQ(open().settings.modules.size(), 28u);
  static_cast<uint16_t*>(half.raw())[5] = 0x7f80;
  expect_refused<IoError>("the first at element 5");
}

TEST_F(PeftFolder, OtherModelsAreRefused) {
  expect_refused<IoError>("no linear layer", "gpt2");
  expect_refused<IoError>("no linear layer", "mixtral");
}

TEST_F(PeftFolder, OtherFoldersAreRefused) {
  EXPECT_THAT([&] { open_adapter(folder_ / "none", model_of("llama")); },
              ThrowsMessage<ConfigError>(HasSubstr("none")));
  const std::string folder = folder_.path().string();
  EXPECT_THAT([&] { open_adapter("law=" + folder, model_of("llama")); },
              ThrowsMessage<ConfigError>(HasSubstr("without a name: " + folder + " (NAME=DIR")));
  EXPECT_THAT([&] { open_adapter(test_data("golden/llama/model"), model_of("llama")); },
              ThrowsMessage<ConfigError>(HasSubstr("holds a model and no adapter")));
  std::filesystem::create_directories(folder_ / "out/checkpoint-500");
  EXPECT_THAT([&] { open_adapter(folder_ / "out", model_of("llama")); },
              ThrowsMessage<ConfigError>(HasSubstr("has neither adapter_config.json")));
  std::filesystem::copy(test_data("golden/lora_llama/adapter"), folder_ / "out/checkpoint-1000");
  EXPECT_THAT([&] { open_adapter(folder_ / "out", model_of("llama")); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("holds no adapter itself"), HasSubstr("out/checkpoint-1000"))));
  const auto file = test_data("golden/lora_llama/adapter") / kAdapterWeightsFile;
  EXPECT_THAT([&] { open_adapter(file, model_of("llama")); },
              ThrowsMessage<ConfigError>(HasSubstr("expected the folder that it is in")));
  std::filesystem::create_directory(folder_ / "p");
  write_file_atomically(folder_ / "p/adapter_model.bin", "x");
  EXPECT_THAT([&] { open_adapter(folder_ / "p", model_of("llama")); },
              ThrowsMessage<ConfigError>(HasSubstr("pickle")));
  open();
  write_file_atomically(folder_ / kAdapterConfigFile, "{\"peft_type\": ");
  EXPECT_THROW(open_adapter(folder_.path(), model_of("llama")), IoError);
}

TEST_F(PeftFolder, IsNoModel) {
  open();
  const auto as_model = [&](const std::string& base) {
    config_["base_model_name_or_path"] = base;
    write_file_atomically(folder_ / kAdapterConfigFile, config_.dump());
    return resolve_model_folder(folder_.path());
  };
  EXPECT_THAT([&] { as_model("org/base"); },
              ThrowsMessage<ConfigError>(AllOf(
                  HasSubstr("holds an adapter (adapter_config.json) and not the model under it, "
                            "org/base; give that model here"),
                  HasSubstr("--adapter " + folder_.path().string() +
                            " (in a configuration "
                            "peft.adapter)"))));
  // Some programs put the model's config.json beside it.
  std::filesystem::copy(test_data("golden/llama/model/config.json"), folder_ / "config.json");
  EXPECT_THAT([&] { as_model(""); }, ThrowsMessage<ConfigError>(HasSubstr("under it; give")));
  std::filesystem::copy(test_data("golden/llama/model/model.safetensors"),
                        folder_ / "model.safetensors");
  EXPECT_EQ(as_model("").kind, ModelFolderKind::hugging_face);
}

TEST_F(PeftFolder, ARelativePathOfItsModelIsSaidToBeOne) {
  for (const auto& [base, relative] :
       {std::pair("models/absent", true), {"/absent/model", false}}) {
    config_["base_model_name_or_path"] = base;
    open();
    const auto said = HasSubstr("a relative path begins in the folder that the command runs in");
    const auto advice = HasSubstr("--model MODEL --adapter " + folder_.path().string());
    EXPECT_THAT(
        [&] { model_under_adapter(folder_.path()); },
        ThrowsMessage<ConfigError>(AllOf(
            HasSubstr(base), advice, testing::Conditional(relative, said, testing::Not(said)))));
  }
}

/// Finite numbers in a file whose product is beyond FP32 would become a model of infinities.
TEST_F(PeftFolder, WeightsThatMergingMakesInfiniteAreRefused) {
  const auto merged = [&] {
    PeftAdapter adapter = open();
    const ModelConfig model = model_of("llama");
    return merge_adapter(open_weights(resolve_model_folder(test_data("golden/llama/model"))),
                         std::move(adapter), model, std::nullopt)
        ->tensor(kQ + ".weight");
  };
  config_["lora_alpha"] = 1e30;
  EXPECT_NO_THROW(merged());
  config_["lora_alpha"] = 1e300;
  EXPECT_THAT(merged, ThrowsMessage<IoError>(
                          AllOf(HasSubstr(kQ + ".weight: "), HasSubstr("NaN or infinite"))));
}

TEST(MergedWeights, AreThoseOfPeft) {
  const std::pair<std::string, std::string> cases[] = {
      {"lora_llama", "llama"}, {"lora_gpt2", "gpt2"},       {"dora_llama", "llama"},
      {"dora_t5", "t5_v1_1"},  {"lora_experts", "mixtral"}, {"lora_experts_v4", "mixtral"}};
  for (const auto& [adapter, name] : cases) {
    SCOPED_TRACE(adapter);
    const auto folder = test_data("golden") / adapter;
    const ModelConfig model = model_of(name);
    const auto merged =
        merge_adapter(open_weights(resolve_model_folder(test_data("golden") / name / "model")),
                      open_adapter(folder / "adapter", model), model, std::nullopt);
    const SafetensorsFile file(folder / "merged.safetensors");
    int compared = 0;
    for (const TensorInfo& info : file.tensors()) {
      const std::string weight = info.name.substr(std::string("merged.").size());
      EXPECT_LE(test::relative_error(merged->tensor(weight), file.tensor(info.name)), 1e-6)
          << weight;
      ++compared;
    }
    EXPECT_GE(compared, 6);
  }
}

}  // namespace
}  // namespace viaduct
