// What PEFT's files can hold of an adapter.

#include "checkpoint/peft_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "model/adapter_modules.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using test::test_data;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kHead = "base_model.model.lm_head.weight";

ModelConfig model_of(const std::string& name) {
  return read_model_config(resolve_model_folder(test_data("golden") / name / "model"));
}

/// An adapter of rank 2 and zeros on the modules that `targets` name.
PeftAdapter adapter_on(const ModelConfig& model, const std::vector<std::string>& targets,
                       const TemporaryFolder& folder,
                       const std::vector<std::string>& trained = {}) {
  PeftConfig config;
  config.train = trained;
  config.target_modules = targets;
  config.dim = 2;
  const AdapterSettings settings = choose_adapters(config, model);
  std::map<std::string, Tensor> tensors;
  for (const AdaptableModule& module : adaptable_modules(model)) {
    if (settings.of(module.name) == nullptr) continue;
    tensors[kAdapterPrefix + module.name + kAdapterA] = host_tensor(DType::f32, {2, module.in});
    tensors[kAdapterPrefix + module.name + kAdapterB] = host_tensor(DType::f32, {module.out, 2});
  }
  for (const std::string& module : settings.trained)
    tensors[kAdapterPrefix + module + ".weight"] =
        host_tensor(DType::f32, {model.vocabulary, model.hidden});
  if (!settings.trained.empty())
    tensors[kHead] = host_tensor(DType::f32, {model.vocabulary, model.hidden});
  write_safetensors(folder / kAdapterWeightsFile, tensors);
  write_file_atomically(folder / kAdapterConfigFile, peft_config_text(settings, model, ""));
  return open_adapter(folder.path(), model);
}

TEST(PeftForm, DenseLayersBesideExpertsAreRefusedByName) {
  const TemporaryFolder folder;
  for (const char* name : {"deepseek_v2", "deepseek_v3"}) {
    const ModelConfig model = model_of(name);
    EXPECT_THAT([&] { peft_form(adapter_on(model, {"all-linear"}, folder), model); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr("peft.exclude_modules=["),
                                                 HasSubstr("mlp.down_proj"),
                                                 HasSubstr("mlp.shared_experts.gate_proj"))))
        << name;
    // Without experts' adapters PEFT moves them just as well.
    EXPECT_THAT([&] { peft_form(adapter_on(model, {"layers.0.mlp.up_proj"}, folder), model); },
                ThrowsMessage<ConfigError>(HasSubstr("exclude_modules=[mlp.up_proj]")));
    EXPECT_NO_THROW(peft_form(adapter_on(model, {"*.experts.*", "o_proj"}, folder), model));
  }
  const ModelConfig kept = model_of("qwen2_moe");
  EXPECT_NO_THROW(peft_form(adapter_on(kept, {"all-linear"}, folder), kept));
}

/// The folder's tensors, one of them changed or, undefined, left out.
void rewrite(const TemporaryFolder& folder, const std::string& name, const Tensor& value) {
  std::map<std::string, Tensor> tensors;
  {
    const SafetensorsFile file(folder / kAdapterWeightsFile);
    for (const TensorInfo& info : file.tensors()) tensors[info.name] = file.tensor(info.name);
  }
  tensors[name] = value;
  if (!value) tensors.erase(name);
  write_safetensors(folder / kAdapterWeightsFile, tensors);
}

TEST(PeftForm, ATiedTableIsTheHeadsOnlyWhereTheFileHasBoth) {
  for (const auto& [name, table] : {std::pair("gpt2", "wte"), {"llama_tied", "embed_tokens"}}) {
    const TemporaryFolder folder;
    const ModelConfig model = model_of(name);
    const PeftAdapter adapter = adapter_on(model, {"linear_qkv"}, folder, {table});
    EXPECT_EQ(adapter.settings.trained.size(), 1u);
    const Tensor other = host_tensor(DType::f32, {model.vocabulary, model.hidden});
    other.data<float>()[3] = 1;
    rewrite(folder, kHead, other);
    EXPECT_THAT([&] { open_adapter(folder.path(), model); },
                ThrowsMessage<ConfigError>(HasSubstr("differ")));
    rewrite(folder, kHead, {});
    EXPECT_THAT([&] { open_adapter(folder.path(), model); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr(table), HasSubstr("and not the head"))));
  }
}

TEST(PeftForm, ATiedTableIsWrittenWithTheHead) {
  const TemporaryFolder folder;
  const ModelConfig model = model_of("gpt2");
  PeftAdapter adapter = adapter_on(model, {"c_attn"}, folder, {"wte"});
  rewrite(folder, kHead, {});  // as in a run's checkpoint
  adapter.tensors = std::make_unique<SafetensorsFile>(folder / kAdapterWeightsFile);
  write_peft_folder(adapter, model, folder / "written");
  EXPECT_TRUE(SafetensorsFile(folder / "written" / kAdapterWeightsFile).contains(kHead));
  const auto config = nlohmann::json::parse(read_file(folder / "written" / kAdapterConfigFile));
  EXPECT_EQ(config.at("modules_to_save"), nlohmann::json({"lm_head"}));
  EXPECT_EQ(open_adapter(folder / "written", model).settings.trained,
            std::set<std::string>{"transformer.wte"});
}

}  // namespace
}  // namespace viaduct
