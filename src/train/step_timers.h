#pragma once
// Timers of a step by name: what one rank measured, and the least, the mean and the most over all
// ranks (logger.timing_log_level).

#include <map>
#include <string>

#include "comm/host_group.h"
#include "timeline/step_counters.h"

namespace viaduct {

/// Seconds by name, of one rank.
using StepTimers = std::map<std::string, double>;

/// The same over the ranks that have a timer of the name.
using RankTimers = std::map<std::string, FigureOfRanks>;

/// Adds "op/NAME", the time of all ops of a name, and "wait/GROUP/OPERATION", the time that the
/// host waited for communication, of what was counted.
void add_counted_timers(const StepCounters& counters, StepTimers& timers);

/// Of all ranks on rank 0, nothing elsewhere. Ranks may have different names (stages of a pipeline
/// do).
RankTimers timers_of_ranks(HostGroup& host, const StepTimers& mine);

}  // namespace viaduct
