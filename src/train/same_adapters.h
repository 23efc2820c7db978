#pragma once
// Settings of adapters in two configurations: other words may mean the same adapters (the order of
// targets, a pattern in the place of names, alpha of each layer in the place of one for all).

#include <set>
#include <string>

#include "model/model_config.h"
#include "run/run_config.h"

namespace viaduct {

/// The fields of section `peft` that mean the same for `model` in both configurations. `now` is
/// that of a run, with its resolved adapters. None where one of them has no adapters, or `then`
/// names layers that the model lacks: their text has to be the same then.
std::set<std::string> same_adapter_fields(const RunConfig& then, const RunConfig& now,
                                          const ModelConfig& model);

}  // namespace viaduct
