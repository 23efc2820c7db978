#pragma once
// What is planned, the run of one of its layouts, and the memory that this run needs.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "plan/layout.h"
#include "plan/predict.h"

namespace viaduct {

/// What is planned: a file and overrides as for `load_run_config`, and the cluster. Overrides of
/// fields of a layout fix them.
struct PlanRequest {
  std::filesystem::path file;  // empty: none
  std::vector<std::string> overrides;
  Cluster cluster;
  PredictionSettings prediction;
  /// What the search may choose in addition to the layout (plan/variants.h); empty: nothing.
  std::vector<std::shared_ptr<const Variant>> variants = {};
};

/// The run of a layout, with further overrides after it. ConfigError or IoError as of
/// `prepare_run`.
RunSetup setup_of_layout(const PlanRequest& request, const Layout& layout,
                         const std::vector<std::string>& further = {});

/// What a run needs of memories of given sizes.
struct MemoryNeed {
  double bytes = 0;       // of a rank, in the fullest stage
  double host_bytes = 0;  // of a host: what its ranks offload
};
/// By dry runs. ConfigError if the trainer refuses the run, DeadlineError as of `dry_run`.
MemoryNeed memory_need(const RunSetup& setup, const Cluster& cluster,
                       const Deadline& deadline = {});

}  // namespace viaduct
