#pragma once
// An adapter as PEFT's adapter_config.json describes it: one rank and one alpha, patterns for the
// modules that have others, and names of modules, which are PEFT's.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "nn/adapter_settings.h"

namespace viaduct {

struct AdapterDescription {
  int64_t rank = 0;  // of most modules
  double alpha = 0;  // of most
  bool rank_stabilized = false;
  std::map<std::string, int64_t> ranks;  // of the others, by their names
  std::map<std::string, double> alphas;  // the same
  std::vector<std::string> targets;      // whole names, or last parts that stand for just them
  std::vector<std::string> trained;      // modules of the model that train as well
  std::vector<std::string> parameters;   // target_parameters
};

/// `parameters`: what of the model has an adapter as a parameter of PEFT's (target_parameters), by
/// its name here. Not empty together with settings.modules.
AdapterDescription describe_adapter(const AdapterSettings& settings, const ModelConfig& model,
                                    const std::map<std::string, AdapterShape>& parameters = {});

}  // namespace viaduct
