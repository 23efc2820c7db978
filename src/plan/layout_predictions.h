#pragma once
// Predictions of several layouts at a time: the dry runs of all their stages share the threads, so
// that one layout alone keeps them busy too.

#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/thread_pool.h"
#include "plan/layer_costs.h"
#include "plan/stage_runs.h"

namespace viaduct {

struct LayoutPrediction {
  std::optional<Prediction> prediction;
  std::vector<std::string> notes;  // of its configuration
  std::string refused;             // by the trainer, why; or
  std::unique_ptr<StageRuns>
      too_large;             // one of several stages does not fit; others may be missing; or
  bool out_of_time = false;  // the deadline passed before
};

/// In the order of `layouts`. A layout of one stage that does not fit is predicted all the same.
std::vector<LayoutPrediction> predict_layouts(const PlanRequest& request, ThreadPool& pool,
                                              const std::vector<const Layout*>& layouts,
                                              const Deadline& deadline);

}  // namespace viaduct
