#pragma once
// Section peft of a run that has its adapter from files: what they say takes the place of the
// settings, so that the resolved configuration says what acts.

#include "model/adapter_config.h"
#include "model/model_config.h"

namespace viaduct {

/// Sets scheme, target_modules, exclude_modules, dim, alpha, rslora, both patterns, dropout and
/// train of `config` to those of its resolved adapter.
void take_adapter_fields(PeftConfig& config, const ModelConfig& model);

}  // namespace viaduct
