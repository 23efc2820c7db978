#include "plan/fitting_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"

namespace viaduct {
namespace {

using Overrides = std::vector<std::string>;

/// The changes that may be tried, in the order of how much they change the run.
std::vector<FittingChange> possible_changes(const SearchResult& result, const Layout& layout) {
  std::vector<FittingChange> changes{
      {"moments in BF16",
       {"optimizer.use_precision_aware_optimizer=true", "optimizer.exp_avg_dtype=bf16",
        "optimizer.exp_avg_sq_dtype=bf16"}},
      {"gradients in BF16", {"ddp.grad_reduce_in_fp32=false"}},
      {"the optimizer's state in the host's memory",
       {"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"}}};
  const int64_t ranks = 2 * result.ranks;
  const int64_t rows = int64_t{2} * layout.dp * layout.micro_batch;
  if (result.global_batch % rows == 0) {
    changes.push_back({fmt::format("{} GPUs, twice as many data ranks", ranks),
                       {fmt::format("dist.ranks={}", ranks)}});
  }
  if (result.model.layers % (int64_t{2} * layout.pp * layout.vpp) == 0) {
    // Stages of an encoder's own stay as they are.
    const int64_t more = result.ranks + int64_t{1} * layout.dp * layout.cp * layout.tp * layout.pp;
    changes.push_back({fmt::format("{} GPUs, twice as many pipeline stages", more),
                       {fmt::format("dist.ranks={}", more),
                        fmt::format("model.pipeline_model_parallel_size={}", 2 * layout.pp)}});
  }
  if (result.length % (int64_t{4} * layout.cp * layout.tp) == 0) {
    changes.push_back({fmt::format("rows of {} tokens", result.length / 2),
                       {fmt::format("model.seq_length={}", result.length / 2)}});
  }
  return changes;
}

}  // namespace

FittingChanges fitting_changes(const PlanRequest& request, const SearchResult& result,
                               const Layout& layout, const Deadline& deadline, size_t most) {
  FittingChanges found;
  std::vector<FittingChange>& tried = found.changes;
  for (FittingChange& change : possible_changes(result, layout)) {
    try {
      const MemoryNeed need = memory_need(setup_of_layout(request, layout, change.overrides),
                                          request.cluster, deadline);
      if (need.host_bytes > request.cluster.host_memory_bytes) continue;
      change.bytes = need.bytes;
    } catch (const ConfigError&) {
      continue;  // it contradicts the rest of the configuration
    } catch (const DeadlineError&) {
      ++found.not_tried;
      continue;
    }
    change.excess_bytes = change.bytes - result.capacity_bytes;
    tried.push_back(std::move(change));
  }
  const auto fits = [](const FittingChange& change) { return change.excess_bytes <= 0; };
  if (std::any_of(tried.begin(), tried.end(), fits)) {
    std::erase_if(tried, [&](const FittingChange& change) { return !fits(change); });
  } else {
    std::stable_sort(tried.begin(), tried.end(),
                     [](const auto& a, const auto& b) { return a.excess_bytes < b.excess_bytes; });
  }
  if (tried.size() > most) tried.resize(most);
  return found;
}

std::string text_of(const FittingChange& change) {
  const std::string outcome =
      change.excess_bytes <= 0
          ? "fits"
          : fmt::format("still {} bytes ({}) too much",
                        static_cast<int64_t>(std::ceil(change.excess_bytes)),
                        format_bytes(static_cast<int64_t>(change.excess_bytes)));
  return fmt::format("with {} ({}): {}, {}", change.text, fmt::join(change.overrides, " "),
                     format_bytes(static_cast<int64_t>(change.bytes)), outcome);
}

}  // namespace viaduct
