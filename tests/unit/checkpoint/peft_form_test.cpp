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

ModelConfig model_of(const std::string& name) {
  return read_model_config(resolve_model_folder(test_data("golden") / name / "model"));
}

/// An adapter of rank 2 and zeros on the modules that `targets` name.
PeftAdapter adapter_on(const ModelConfig& model, const std::vector<std::string>& targets,
                       const TemporaryFolder& folder) {
  PeftConfig config;
  config.target_modules = targets;
  config.dim = 2;
  const AdapterSettings settings = choose_adapters(config, model);
  std::map<std::string, Tensor> tensors;
  for (const AdaptableModule& module : adaptable_modules(model)) {
    if (settings.of(module.name) == nullptr) continue;
    tensors[kAdapterPrefix + module.name + kAdapterA] = host_tensor(DType::f32, {2, module.in});
    tensors[kAdapterPrefix + module.name + kAdapterB] = host_tensor(DType::f32, {module.out, 2});
  }
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

}  // namespace
}  // namespace viaduct
