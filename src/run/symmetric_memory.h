#pragma once
// Whether the ranks of a group have their memory at the same places, which symmetric registration
// with NCCL needs (ddp.nccl_ub).

#include <string>

#include "run/run_config.h"

namespace viaduct {

/// Why ddp.nccl_ub registers memory that is not symmetric; "" if it is symmetric, as far as the
/// configuration decides it.
std::string why_not_symmetric(const RunConfig& config);

/// Whether ddp.nccl_ub is to register symmetric memory.
bool wants_symmetric_memory(const RunConfig& config);

}  // namespace viaduct
