#pragma once
// What the output of a dry run says about a rank of each stage: memory, traffic, kernels.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/dry_run.h"

namespace viaduct::cli {

/// "  main gradients   12.0 MiB" …, and the sum.
std::string memory_text(const std::map<std::string, int64_t>& bytes_by_owner, int64_t total);
/// A line below it: the copy that an asynchronous save writes from.
std::string save_copy_text(int64_t bytes);

/// The output of `--dry-run` of a command that only runs forwards: memory at the peak of `what`,
/// for a rank of each stage.
void print_memory(const std::vector<DryRun>& stages, std::string_view what, bool json);

/// "memory of each rank: 112.3 MiB", or stage by stage.
void print_memory_of_ranks(const std::vector<DryRun>& stages);
/// By owner, with FLOPs, traffic and, on a GPU, kernels of the stage `fullest`. `plain`: the same
/// rank without recompute and offload, if the run has them.
void print_stages_in_full(const std::vector<DryRun>& stages, const std::optional<DryRun>& plain,
                          const DryRun& fullest, int64_t ranks, bool on_gpu,
                          std::string_view target);

nlohmann::ordered_json stages_json(const std::vector<DryRun>& stages);

}  // namespace viaduct::cli
