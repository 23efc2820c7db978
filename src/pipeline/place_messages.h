#pragma once
// Places sends, receives and waits around a stage's computations.

#include "pipeline/compute_order.h"

namespace viaduct {

/// The actions of `stage`, without flags.
ActionList place_messages(const ScheduleSettings& settings, int stage,
                          const std::vector<Step>& steps);

}  // namespace viaduct
