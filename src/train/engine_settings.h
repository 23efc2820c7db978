#pragma once
// The engine's settings as a run's configuration says them.

#include "train/engine.h"
#include "train/layout.h"
#include "train/setup.h"

namespace viaduct {

/// Sets what follows from `rank`'s place in `layout`.
void place_rank(const Layout& layout, GlobalRank rank, EngineSettings& settings);
/// The settings of `rank` in `layout`.
EngineSettings engine_settings(const RunSetup& setup, const Layout& layout, GlobalRank rank);
/// Of a run of one rank.
EngineSettings engine_settings(const RunSetup& setup);

}  // namespace viaduct
