#pragma once
// The frozen model under the adapters of a run, as its checkpoints name it: base.json with the
// model's path and a hash of its weights, or the seed of random ones.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_folder.h"
#include "nn/parameter.h"

namespace viaduct {

/// Name of the file of a checkpoint.
inline constexpr const char* kBaseFile = "base.json";

/// What a run's adapters stand on.
struct AdapterBase {
  std::optional<ModelFolder> folder;  // absent: random weights
  uint64_t seed = 0;                  // of random weights
};

/// The text of base.json: reads every byte of the weights.
std::string base_text(const AdapterBase& base);

/// ConfigError unless `stored`, the text of a base.json at `where`, and `now` name the same weights
/// or the same seed: which both are. The path may differ. `advice` ends the message.
void check_same_base(const std::string& stored, const std::string& now, const std::string& where,
                     const std::string& advice);

/// The same of folders of adapters, as open_adapter found them: reads the weights, once, if any is
/// of a run, whose base.json says on which model. A folder of PEFT says nothing, and fits any.
void check_adapter_bases(const std::vector<std::filesystem::path>& adapters,
                         const AdapterBase& base);

/// The format of the frozen weights that a run's adapter was trained beside, where that rounds
/// them: nf4 or fp8 (peft.base_format of the config.yaml in `adapter`, as open_adapter found it).
/// Nothing for others, and for a folder of PEFT, which has no place for it.
std::optional<BaseFormat> trained_base_format(const std::filesystem::path& adapter);

}  // namespace viaduct
