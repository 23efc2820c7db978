#pragma once
// PEFT's adapter_config.json: what of it is supported, and what an adapter of ours says.

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/peft_targets.h"
#include "nn/adapter_settings.h"

namespace viaduct {

struct PeftSettings {
  int64_t rank = 8;
  double alpha = 8;
  bool rank_stabilized = false;
  double dropout = 0;
  bool magnitudes = false;         // use_dora
  std::vector<std::string> saved;  // modules_to_save, as the file has them
  bool ties_saved = false;         // a tied head goes with the saved token table
  std::vector<std::pair<std::string, double>> ranks, alphas;  // patterns, in the file's order
  std::vector<std::string> target_parameters;                 // of fused experts
  PeftTargets targets;

  /// Of a module whose tensors have `rank`. IoError, naming `where`, if the settings say another.
  AdapterShape shape_of(const std::string& module, int64_t rank, const std::string& where) const;
};

/// ConfigError, by the setting's name, for anything that is not supported; IoError for text that is
/// no adapter_config.json.
PeftSettings read_peft_settings(const std::string& text, const std::string& where);

}  // namespace viaduct
