#pragma once
// Timers of a step by name: what one rank measured, and the least and the most over all ranks
// (logger.timing_log_level).

#include <map>
#include <string>

#include "comm/communicator.h"
#include "timeline/record.h"

namespace viaduct {

/// Seconds by name, of one rank.
using StepTimers = std::map<std::string, double>;

struct TimerRange {
  double least = 0, most = 0;
};
/// Over the ranks that have a timer of the name.
using RankTimers = std::map<std::string, TimerRange>;

/// Adds "op/NAME", the time of all ops of a name, and "wait/GROUP/OPERATION", the time that the
/// host waited for communication, of what the record holds from these entries on.
void add_record_timers(const StepRecord& record, size_t first_op, size_t first_collective,
                       StepTimers& timers);

/// On every rank. Ranks may have different names (stages of a pipeline do).
RankTimers timers_of_ranks(Communicator& world, const StepTimers& mine);

}  // namespace viaduct
