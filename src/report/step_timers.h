#pragma once
// Timers of a step by name: one rank's values, and minimum, mean and maximum over all ranks
// (logger.timing_log_level).

#include <map>
#include <string>

#include "comm/host_group.h"
#include "timeline/step_counters.h"

namespace viaduct {

/// Seconds by name, of one rank.
using StepTimers = std::map<std::string, double>;

/// The same over the ranks that have a timer with the name.
using RankTimers = std::map<std::string, FigureOfRanks>;

/// Adds "op/NAME", the time of all ops of a name, and "wait/GROUP/OPERATION", the time that the
/// host waited for communication, from the record's counters.
void add_counted_timers(const StepCounters& counters, StepTimers& timers);

/// Of all ranks on rank 0, nothing elsewhere. Ranks may have different names (stages of a pipeline
/// do).
RankTimers timers_of_ranks(HostGroup& host, const StepTimers& mine);

}  // namespace viaduct
