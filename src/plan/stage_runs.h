#pragma once
// The dry runs of one rank of each pipeline stage of a run. They do not depend on each other, so
// several threads make them at a time; that of one run or, in a search, those of several.

#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "engine/dry_run.h"
#include "hardware/cluster.h"
#include "run/resolved_run.h"
#include "run/setup.h"

namespace viaduct {

/// Dry runs that are made at a time unless somebody says otherwise.
inline constexpr int kPlanThreads = 2;

class StageRuns {
 public:
  /// What is kept of a dry run: its sums and bytes, or its record as well, or that with the shapes
  /// of all operands.
  enum class Keep { memory, records, records_with_shapes };

  /// ConfigError if the cluster's GPU has no kernels of ours, or the trainer refuses the run.
  StageRuns(const RunSetup& setup, const Cluster& cluster, Keep keep);

  const RunConfig& config() const { return setup_.config; }
  const ModelConfig& model() const { return setup_.model; }
  const Parallelism& parallelism() const { return run_.parallelism; }
  size_t stages() const { return stages_.size(); }
  /// The stages in the order in which they are best run: the ends hold most, activations of most
  /// micro-batches and the logits.
  const std::vector<size_t>& order() const { return order_; }
  /// Different stages may be run at the same time, and each once. DeadlineError as of `dry_run`.
  void run(size_t stage, const Deadline& deadline = {});
  bool made(size_t stage) const { return stages_[stage].has_value(); }
  bool all_made() const;
  /// Of the fullest of the stages that were run.
  double peak_bytes() const;

  GlobalRank rank(size_t stage) const { return ranks_[stage]; }
  const DryRun& dry_run_of(size_t stage) const { return *stages_[stage]; }
  const StepRecord& record(size_t stage) const { return records_[stage]; }
  /// From here on as with Keep::memory.
  void forget_records();

 private:
  RunSetup setup_;
  ResolvedRun run_;
  Keep keep_;
  std::vector<GlobalRank> ranks_;
  std::vector<size_t> order_;
  std::vector<std::optional<DryRun>> stages_;
  std::vector<StepRecord> records_;
};

/// Whether one of several stages needs more: nobody has to look at the others then.
inline bool is_too_large(const StageRuns& runs, double capacity) {
  return runs.stages() > 1 && runs.peak_bytes() > capacity;
}

/// Why not all stages of a run were run that should have been.
struct StagesEnd {
  std::optional<ConfigError> refused;  // by the trainer
  bool out_of_time = false;
  bool early() const { return refused || out_of_time; }
};

/// Runs the stages of all `runs` that were not run yet, on all threads of the pool: first the ends,
/// then the others of those of which `goes_on` then says so. Returns for each of `runs` what ended
/// it early, if anything did. Once `deadline` has passed, no stage is run any more.
std::vector<StagesEnd> run_stages(ThreadPool& pool, const std::vector<StageRuns*>& runs,
                                  FunctionRef<bool(const StageRuns&)> goes_on,
                                  const Deadline& deadline = {});

}  // namespace viaduct
