#pragma once
// The target of a dry run: `train --dry-run --target cpu:avx512` or `cuda:sm_90a`.

#include <string>
#include <vector>

#include "run/run_config.h"

namespace viaduct::cli {

/// Names that `use_target` accepts.
std::vector<std::string> target_names();

/// A cpu target becomes an override of dist.cpu_isa, a GPU `defaults.cuda_target`; nothing for an
/// empty target. ConfigError for other names, and if the overrides set dist.cpu_isa as well.
void use_target(const std::string& target, std::vector<std::string>& overrides,
                RunConfig& defaults);

}  // namespace viaduct::cli
