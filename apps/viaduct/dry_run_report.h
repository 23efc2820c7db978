#pragma once
// The output of `viaduct train --dry-run`: what was set, the layout (dry_run_layout.h), and a rank
// of each stage (dry_run_stages.h).

#include <functional>
#include <vector>

#include "engine/dry_run.h"
#include "plan/rules/evaluate.h"
#include "run/setup.h"

namespace viaduct::cli {

struct DryRunOutput {
  bool json = false;
  bool full = false;       // of the text; JSON has everything
  bool all_rules = false;  // also those that are kept
};

/// Runs one step of a rank of each stage on the sim device and prints the result: text, or one JSON
/// document. The text begins with what was set and what warns. The rules of the tuning guides are
/// applied by `evaluate`, or, without it, as far as a run without a cluster has their figures.
void print_dry_run(
    const RunSetup& setup, const DryRunOutput& output,
    const std::function<rules::Evaluation(const std::vector<DryRun>&)>& evaluate = nullptr);

}  // namespace viaduct::cli
