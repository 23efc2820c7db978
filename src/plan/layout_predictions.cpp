#include "plan/layout_predictions.h"

#include "base/error.h"

namespace viaduct {
namespace {

/// A layout that the trainer takes, and where its prediction goes.
struct Prepared {
  std::unique_ptr<StageRuns> runs;
  LayoutPrediction* result;
};

}  // namespace

std::vector<LayoutPrediction> predict_layouts(const PlanRequest& request, ThreadPool& pool,
                                              const std::vector<const Layout*>& layouts,
                                              const Deadline& deadline) {
  const double capacity = capacity_bytes(request.cluster, request.prediction);
  std::vector<LayoutPrediction> results(layouts.size());
  std::vector<Prepared> all;
  for (size_t i = 0; i < layouts.size(); ++i) {
    try {
      const RunSetup setup = setup_of_layout(request, *layouts[i]);
      results[i].notes = setup.notes;
      all.push_back({std::make_unique<StageRuns>(setup, request.cluster, StageRuns::Keep::records),
                     &results[i]});
    } catch (const ConfigError& error) {
      results[i].refused = error.what();
    }
  }
  std::vector<StageRuns*> runs;
  for (const Prepared& one : all) runs.push_back(one.runs.get());
  const auto ends = run_stages(
      pool, runs, [&](const StageRuns& outer) { return !is_too_large(outer, capacity); }, deadline);
  const auto time = [&](int64_t i, int) {
    Prepared& one = all[static_cast<size_t>(i)];
    const StagesEnd& end = ends[static_cast<size_t>(i)];
    if (end.refused) {
      one.result->refused = end.refused->what();
    } else if (is_too_large(*one.runs, capacity)) {
      one.runs->forget_records();
      one.result->too_large = std::move(one.runs);
    } else if (end.out_of_time) {
      one.result->out_of_time = true;
    } else {
      try {
        one.result->prediction =
            predict(*one.runs, request.cluster, request.prediction, &pool, deadline);
      } catch (const DeadlineError&) {
        one.result->out_of_time = true;
      }
    }
  };
  if (all.size() == 1) {
    time(0, 0);  // its stages share the threads
  } else {
    pool.run(static_cast<int64_t>(all.size()), time);
  }
  return results;
}

}  // namespace viaduct
