#pragma once
// model.deterministic_mode: the same run has the same bits each time. Kernels and products have one
// order of sums on every device, and so have sums of ranks on the cpu; what is open on GPUs are
// sums that NCCL leaves to switches (NVLink SHARP, InfiniBand SHARP).

#include <string>
#include <vector>

#include "config/field.h"
#include "config/problems.h"

namespace viaduct {

struct DeterminismConfig {
  bool deterministic_mode = false;
};

/// In section `model`.
FieldGroup determinism_fields(DeterminismConfig& config);

/// For ranks with a GPU each, after the environment is set (run/environment_config.h) and before
/// NCCL is used: has NCCL make sums on GPUs alone, by the variables that are not set yet. Returns a
/// line for each that is set here. Adds variables that contradict it to `problems`.
std::vector<std::string> set_deterministic(Problems& problems);

/// Whether a value of NCCL_ALGO lets switches make sums: it names an algorithm that does. A list of
/// exclusions ("^NVLS") does not.
bool sums_in_switches(std::string_view nccl_algo);

}  // namespace viaduct
