#include "train/check_memory.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"

namespace viaduct {
namespace {

constexpr size_t kMostChanges = 3;

std::string changes_text(const RunSetup& setup, GlobalRank rank, int64_t limit_bytes,
                         double seconds) {
  const double end = steady_seconds() + seconds;
  const auto changes = changes_that_fit(setup, rank, limit_bytes, kMostChanges, seconds);
  if (changes.empty() && steady_seconds() > end)
    return fmt::format(
        "no settings that make it fit were found in {:.3g} s, in which not all were tried: fewer "
        "rows (train.micro_batch_size) and full recompute (model.recompute_granularity=full "
        "model.recompute_method=uniform model.recompute_num_layers=1) save the most; their "
        "--dry-run says what they take",
        seconds);
  if (changes.empty())
    return "none of the settings that were tried makes it fit: use more ranks on more machines, or "
           "a smaller model";
  std::string text = "what would fit, the fewest changes first:";
  for (const FittingSettings& change : changes)
    text += fmt::format("\n  {}: {} a rank", change.settings, format_bytes(change.bytes));
  return text;
}

}  // namespace

void check_memory(const RunSetup& setup, const PlannedMemory& planned, HostGroup& ranks,
                  int ranks_here, double memory_bytes, double fitting_seconds) {
  const auto& offload = setup.config.offload;
  const int64_t second = planned.offload.most_bytes;
  VIADUCT_CHECK(
      ConfigError, !offload.offload_bytes || second <= *offload.offload_bytes,
      "memory.offload_bytes: {}, but a step needs {} bytes in the second memory of a rank",
      offload.offload_bytes.value_or(0), second);
  const int64_t in_host_memory = offload.offload_path ? 0 : second;
  const int64_t mine = planned.plan.arena_bytes + in_host_memory + planned.save_copy_bytes;
  const auto own = static_cast<double>(mine);
  const double all = ranks.sum(own);
  const double here = ranks_here == ranks.size() ? all : own * ranks_here;
  const auto first = ranks.first_text(here > memory_bytes ? "does not fit" : "");
  if (!first) return;
  std::string text;
  if (first->rank == ranks.rank()) {
    const auto limit = static_cast<int64_t>(own * memory_bytes / here);
    text = fmt::format(
        "the model, its optimizer state and a step with train.micro_batch_size={} take {} on a "
        "rank{}{}, {} on the {} of this machine, which has {} of memory (viaduct train "
        "--dry-run lists the owners); {}",
        setup.config.train.micro_batch_rows(), format_bytes(planned.plan.arena_bytes),
        in_host_memory > 0 ? fmt::format(" and {} of second memory in the host's "
                                         "(memory.offload_path is null)",
                                         format_bytes(in_host_memory))
                           : "",
        planned.save_copy_bytes > 0
            ? fmt::format(" and {} for the copy of an asynchronous save (checkpoint.async_save)",
                          format_bytes(planned.save_copy_bytes))
            : "",
        format_bytes(static_cast<int64_t>(here)),
        ranks_here == 1 ? "only rank" : fmt::format("{} ranks", ranks_here),
        format_bytes(static_cast<int64_t>(memory_bytes)),
        changes_text(setup, {static_cast<int>(first->rank)}, limit, fitting_seconds));
  }
  fail<ConfigError>("{}", ranks.first_text(text)->text);
}

}  // namespace viaduct
