#pragma once
// Adapters in PEFT's format: adapter_config.json and adapter_model.safetensors. A checkpoint of a
// run with adapters holds the first file beside its tensors, under PEFT's names, and is read as
// well.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/tensor_source.h"
#include "model/model_config.h"
#include "nn/adapter_settings.h"

namespace viaduct {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterWeightsFile = "adapter_model.safetensors";

struct PeftAdapter {
  AdapterSettings settings;               // each expert has its own adapter
  std::filesystem::path folder;           // of these files
  std::unique_ptr<TensorSource> tensors;  // under PEFT's names, of experts too (peft_experts.h)
  std::string config;                     // the text of adapter_config.json
  bool router_parameters = false;         // the files have routers so (model/router_adapters.h)
};

/// Whether a folder is a checkpoint of a run with adapters.
bool holds_adapter(const std::filesystem::path& folder);

/// ConfigError if a folder that should be a model's holds an adapter and no model: what it is, the
/// model that it names, and the option that takes it.
void refuse_adapter_as_model(const std::filesystem::path& folder);

/// Opens DIR (PEFT's folder, a step folder, or a save folder with its latest step) for a model.
/// ConfigError for settings that are not supported, by name, IoError for tensors that do not fit
/// the model or that the settings do not explain: which, their shapes, the nearest names.
PeftAdapter open_adapter(const std::filesystem::path& folder, const ModelConfig& model);

/// Where the files of an adapter (as of open_adapter) are: PEFT's folder, or the step. Errors as
/// there for a path that is no adapter.
std::filesystem::path adapter_folder(const std::filesystem::path& adapter);

/// The model under an adapter: what base_model_name_or_path of its adapter_config.json names, a
/// path or a name of the Hub (base/hub_cache.h). Nothing if `folder` (as of open_adapter) holds a
/// model. ConfigError if the file names none, or one that is not there.
std::optional<std::filesystem::path> model_under_adapter(const std::filesystem::path& folder);

/// The vocabulary of the model that an adapter was trained on, where its files have the embedding
/// and the head of a larger one than `model`; else that of `model`. ConfigError where only the
/// model under it had them. Errors as open_adapter.
int64_t adapter_vocabulary(const std::filesystem::path& folder, const ModelConfig& model);

/// The adapter_config.json of an adapter. `base`: the model's path; "" if there is none.
/// `parameters`: those of fused experts that have adapters, by name.
std::string peft_config_text(const AdapterSettings& settings, const ModelConfig& model,
                             const std::string& base,
                             const std::map<std::string, AdapterShape>& parameters = {});

/// Writes PEFT's folder `to`, which is new or empty, whole or not at all. Tensors are FP32, or as
/// stored; those of experts are fused as transformers 5 has them. ConfigError for adapters of
/// experts that PEFT cannot hold. `further`: files beside them, by name.
struct WrittenAdapter {
  int64_t tensors = 0, bytes = 0;
};
WrittenAdapter write_peft_folder(const PeftAdapter& adapter, const ModelConfig& model,
                                 const std::filesystem::path& to,
                                 const std::map<std::string, std::string>& further = {});

}  // namespace viaduct
