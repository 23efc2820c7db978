#pragma once
// Whether the ranks of a machine fit into its memory, before anything is allocated.

#include "comm/host_group.h"
#include "engine/memory_bill.h"
#include "engine/plan_memory.h"

namespace viaduct {

/// ConfigError, on all ranks, if those of a machine need more memory than it has; it lists changes
/// that would fit (engine/memory_bill.h). `ranks_here`: ranks on this machine. Where these are not
/// all ranks, each is assumed to need as much as this one. Every rank of the run calls it.
/// `memory_bytes`: of the machine. `fitting_seconds`: in which changes are tried; the error says if
/// they were too few to find one.
void check_memory(const RunSetup& setup, const PlannedMemory& planned, HostGroup& ranks,
                  int ranks_here, double memory_bytes, double fitting_seconds = kFittingSeconds);

}  // namespace viaduct
