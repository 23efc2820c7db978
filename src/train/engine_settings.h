#pragma once
// The engine's settings as a run's configuration says them.

#include "optim/schedules.h"
#include "train/engine.h"
#include "train/layout.h"
#include "train/setup.h"

namespace viaduct {

AdamWSettings adamw_settings(const OptimizerConfig& config);

/// What the schedules give a step that begins when `samples` rows are consumed by updates; the
/// rest of the inputs is as in no step before.
StepInputs scheduled_inputs(const Schedules& schedules, int64_t samples);

/// Sets what follows from `rank`'s place in `layout`.
void place_rank(const Layout& layout, GlobalRank rank, EngineSettings& settings);
/// The settings of `rank` in `layout`.
EngineSettings engine_settings(const RunSetup& setup, const Layout& layout, GlobalRank rank);
/// Of a run of one rank.
EngineSettings engine_settings(const RunSetup& setup);

}  // namespace viaduct
