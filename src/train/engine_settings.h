#pragma once
// The engine's settings as a run's configuration says them.

#include "train/engine.h"
#include "train/setup.h"

namespace viaduct {

EngineSettings engine_settings(const RunSetup& setup);

}  // namespace viaduct
