#pragma once
// What PEFT's files cannot hold of the adapters of a run: said at its start, not when convert is
// asked for them.

#include <string>
#include <vector>

#include "model/model_config.h"
#include "run/run_config.h"

namespace viaduct {

/// A line for each setting of section `peft` that has no place there, with what is exported
/// instead. `config`: with its resolved adapters. Nothing for runs that do not train.
std::vector<std::string> peft_export_warnings(const RunConfig& config, const ModelConfig& model);

}  // namespace viaduct
