#pragma once
// The order of computations under DualPipeV: two chunks of layers a stage, the first ones down the
// stages and the second ones back up (StagePlacement::v), so that the first stage has both ends of
// the model. In the steady part each forward is beside a backward of another micro-batch.

#include "pipeline/compute_order.h"

namespace viaduct {

/// As DeepSeek-AI published it (github.com/deepseek-ai/DualPipe, 2025: DualPipe cut in half), with
/// separate weight gradients where they fill the bubble. Without backwards: forwards of chunk 0 as
/// far ahead as those of chunk 1 are later.
std::vector<Step> dualpipe_v_order(const ScheduleSettings& settings, int stage);

}  // namespace viaduct
