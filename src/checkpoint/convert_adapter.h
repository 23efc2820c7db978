#pragma once
// What convert writes of an adapter alone.

#include "checkpoint/convert.h"

namespace viaduct {

/// The adapter of the run `from`, as PEFT has it. ConfigError for settings that an adapter has not.
Converted convert_adapter(const ConvertSettings& settings, const ModelFolder& from);

/// settings.adapter for the model `from`, as llama.cpp has it. ConfigError as above.
Converted convert_adapter_only(const ConvertSettings& settings, const ModelFolder& from);

}  // namespace viaduct
