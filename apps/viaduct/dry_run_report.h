#pragma once
// The output of `viaduct train --dry-run`: groups, layer map, memory and traffic of a rank of each
// stage.

#include <functional>
#include <map>
#include <string>

#include "comm/mesh.h"
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

/// The output of `--dry-run` of a command that only runs forwards: memory at the peak of `what`,
/// for a rank of each stage.
void print_memory(const std::vector<DryRun>& stages, std::string_view what, bool json);

/// "tp 2, cp 1, dp 4, pp 1", with experts also ", ep 2, tp of experts 1".
std::string mesh_text(const Mesh& mesh);

/// "  main gradients   12.0 MiB" …, and the sum.
std::string memory_text(const std::map<std::string, int64_t>& bytes_by_owner, int64_t total);
/// A line below it: the copy that an asynchronous save writes from.
std::string save_copy_text(int64_t bytes);

}  // namespace viaduct::cli
