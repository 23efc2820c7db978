#include "plan/stage_runs.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace viaduct {
namespace {

RunSetup on_cluster(const RunSetup& given, const Cluster& cluster) {
  VIADUCT_CHECK(ConfigError, cluster.gpu.has_kernels(),
                "cluster {}: there are no kernels for GPU {}; GPUs with an architecture in "
                "hardware/gpus.yaml have some",
                cluster.name, cluster.gpu.name);
  RunSetup setup{
      .config = given.config, .model = given.model, .conversations = given.conversations};
  setup.config.cuda_target = cluster.gpu.architecture;
  return setup;
}

}  // namespace

StageRuns::StageRuns(const RunSetup& setup, const Cluster& cluster, Keep keep)
    : setup_(on_cluster(setup, cluster)),
      run_(resolve_run(setup_.config, setup_.model)),
      keep_(keep),
      ranks_(run_.parallelism.mesh.at_each_stage({0})),
      order_(ranks_.size()),
      stages_(ranks_.size()),
      records_(ranks_.size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (order_.size() > 1) std::rotate(order_.begin() + 1, order_.end() - 1, order_.end());
  for (StepRecord& record : records_) record.set_with_shapes(keep == Keep::records_with_shapes);
}

void StageRuns::run(size_t stage, const Deadline& deadline) {
  StepRecord* const record = keep_ == Keep::memory ? nullptr : &records_[stage];
  // Virtual time begins with the second step, after a wait of all ranks for each other.
  stages_[stage] = dry_run(setup_, ranks_[stage], record, false, false,
                           {.deadline = deadline, .short_first_step = record != nullptr});
}

bool StageRuns::all_made() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const auto& s) { return s.has_value(); });
}

double StageRuns::peak_bytes() const {
  int64_t peak = 0;
  for (const auto& stage : stages_)
    if (stage) peak = std::max(peak, stage->peak.bytes);
  return static_cast<double>(peak);
}

void StageRuns::forget_records() {
  keep_ = Keep::memory;
  for (StepRecord& record : records_) record = {};
}

std::vector<StagesEnd> run_stages(ThreadPool& pool, const std::vector<StageRuns*>& runs,
                                  FunctionRef<bool(const StageRuns&)> goes_on,
                                  const Deadline& deadline) {
  struct Unit {
    size_t run, stage;
    StagesEnd end;
  };
  std::vector<StagesEnd> ends(runs.size());
  for (const bool outer : {true, false}) {
    std::vector<Unit> units;
    for (size_t run = 0; run < runs.size(); ++run) {
      if (ends[run].early() || (!outer && !goes_on(*runs[run]))) continue;
      const auto& order = runs[run]->order();
      const size_t end = outer ? std::min<size_t>(2, order.size()) : order.size();
      for (size_t i = outer ? 0 : 2; i < end; ++i)
        if (!runs[run]->made(order[i])) units.push_back({run, order[i], {}});
    }
    pool.run(static_cast<int64_t>(units.size()), [&](int64_t i, int) {
      Unit& unit = units[static_cast<size_t>(i)];
      try {
        deadline.check("dry run of a stage");
        runs[unit.run]->run(unit.stage, deadline);
      } catch (const ConfigError& error) {
        unit.end.refused = error;
      } catch (const DeadlineError&) {
        unit.end.out_of_time = true;
      }
    });
    for (Unit& unit : units)
      if (!ends[unit.run].early()) ends[unit.run] = std::move(unit.end);
  }
  return ends;
}

}  // namespace viaduct
