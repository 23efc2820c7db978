#pragma once
// Converts a configuration to the arguments of this folder's functions.

#include "pipeline/executor.h"
#include "pipeline/pipeline_config.h"
#include "pipeline/schedule.h"

namespace viaduct {

/// The schedule of a resolved configuration, for stages of `virtual_stages` chunks; the caller sets
/// the numbers of stages and micro-batches.
ScheduleSettings schedule_settings(const PipelineConfig& config, int virtual_stages);
ExecutorSettings executor_settings(const PipelineConfig& config);
/// Format of messages between stages; none: that of the residual stream.
std::optional<DType> message_format(const PipelineConfig& config);

}  // namespace viaduct
