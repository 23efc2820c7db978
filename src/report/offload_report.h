#pragma once
// The report on a run's second memory: what a step moves by the dry run, the measured bandwidth,
// and what was moved and waited for.

#include <string>

#include "device/slot_memory.h"

namespace viaduct {

struct OffloadReport {
  std::string where;          // SlotMemory::describe; "": nothing is offloaded
  OffloadCounts planned;      // of a step
  OffloadBandwidth measured;  // at the start of the run
  OffloadCounts done;         // by the steps since then
  double step_seconds = 0;    // that all steps took

  bool empty() const { return where.empty(); }
};

/// "second memory (file in /scratch, direct I/O): 1.00 GiB at most …", for the start of a run.
std::string planned_text(const OffloadReport& report);
/// What was moved, the speed that was needed, and how long the host waited, for the end of the run;
/// "" if nothing was moved.
std::string outcome_text(const OffloadReport& report);
/// For a dry run: what a step moves, and the bytes that it needs there.
std::string traffic_text(const OffloadCounts& step);

}  // namespace viaduct
