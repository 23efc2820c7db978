#pragma once
// Converts a configuration to the arguments of this folder's functions.

#include "pipeline/executor.h"
#include "pipeline/pipeline_config.h"
#include "pipeline/schedule.h"

namespace viaduct {

/// The schedule of a resolved configuration, for stages of `virtual_stages` chunks behind
/// `front_stages` of an encoder; the caller sets the numbers of all stages and of micro-batches.
ScheduleSettings schedule_settings(const PipelineConfig& config, int virtual_stages,
                                   int front_stages = 0);
ExecutorSettings executor_settings(const PipelineConfig& config);
/// Format of messages between stages; none: that of the residual stream.
std::optional<DType> message_format(const PipelineConfig& config);

}  // namespace viaduct
