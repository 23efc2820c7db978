#pragma once
// What the tensors of an adapter's files are: of adapters, or of modules of the model that trained
// beside them.

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "checkpoint/peft_settings.h"
#include "checkpoint/tensor_source.h"
#include "model/adapter_modules.h"

namespace viaduct {

/// The tensors of a module's adapter.
struct PeftFactors {
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
  const TensorInfo* m = nullptr;  // magnitudes
};

struct PeftContents {
  std::map<std::string, PeftFactors> adapters;
  std::set<std::string> trained;
};

/// Whether `end`, of modules_to_save, stands for a module: it ends its name, or it is inside such a
/// one.
bool is_saved_as(const std::string& module, const std::string& end);

/// `of_run`: the source is a run's checkpoint, which has a tied table alone. It outlives the
/// result. IoError for tensors that the settings do not explain and for modules that they name and
/// that are missing, ConfigError for what they name and is not supported: adapters of tables and
/// heads, linear layers that trained whole, a tied table that trained apart from its head.
PeftContents peft_contents(const TensorSource& source, const PeftSettings& settings,
                           const ModelConfig& model, bool of_run);

/// The rank of a module's adapter, none of whose tensors is missing (peft_missing.h). IoError,
/// naming `where`, for tensors that do not fit the model.
int64_t rank_of(const std::string& name, const PeftFactors& factors, const AdaptableModule& module,
                bool magnitudes, const std::string& where);

}  // namespace viaduct
