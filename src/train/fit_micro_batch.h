#pragma once
// train.micro_batch_size=auto: the most rows whose step fits in the memory of this machine.

#include "run/launch.h"
#include "run/setup.h"

namespace viaduct {

/// The share of the memory that a run with `auto` leaves free: for other programs, and for what
/// lies outside the plan (the program itself, buffers of files, experts of uneven load).
constexpr double kFreeMemory = 0.1;

/// The run with the largest micro-batch that global_batch_size allows and whose ranks fit, by a dry
/// run of each stage, in `memory_bytes` less kFreeMemory; a note says which, and what the next
/// larger one takes. A run that resumes keeps the number of its checkpoint, which has it in
/// config.yaml. `ranks_here`: of this machine. ConfigError where none fits, with what the smallest
/// takes, and on a device other than cpu.
RunSetup fit_micro_batch(const LoadedRunConfig& loaded, double memory_bytes, int64_t ranks_here);

/// The same on this machine.
RunSetup fit_micro_batch(const LoadedRunConfig& loaded, const Launch& launch);

}  // namespace viaduct
