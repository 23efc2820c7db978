#pragma once
// The device of a rank and the table of ops on it.

#include <memory>

#include "device/device.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/table.h"
#include "run/run_config.h"

namespace viaduct {

struct RankDevice {
  std::unique_ptr<Device> device;
  OpTable ops;
};

/// `dist.cpu_isa`, the best of this machine for `auto`.
CpuIsa cpu_isa_of(const DistConfig& config);

/// The cpu device with `threads_per_rank` threads and the ops of `cpu_isa` (`auto` values are
/// resolved here), or the cuda device on the thread's GPU. ConfigError for devices that are not
/// implemented yet, and for a file of `product_algorithms_path` that does not fit.
RankDevice make_rank_device(const DistConfig& config);
/// The sim device for dry runs: with the ops that `make_rank_device` would use, or those of
/// `cuda_target` and side streams as a GPU has them.
RankDevice make_dry_run_device(const RunConfig& config);

}  // namespace viaduct
