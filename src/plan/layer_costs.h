#pragma once
// What lower bounds are computed from: dry runs of the whole model on one rank, and of one and two
// of its layers on the ranks that share a micro-batch.

#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plan/bounds.h"
#include "plan/predict.h"

namespace viaduct {

/// What is planned: a file and overrides as of `load_run_config`, and where. Overrides of fields of
/// a layout fix them.
struct PlanRequest {
  std::filesystem::path file;  // empty: none
  std::vector<std::string> overrides;
  Cluster cluster;
  PredictionSettings prediction;
};

/// The run of a layout, with further overrides behind it. ConfigError or IoError as of
/// `prepare_run`.
RunSetup setup_of_layout(const PlanRequest& request, const Layout& layout,
                         const std::vector<std::string>& further = {});

class LayerCosts {
 public:
  /// Makes the dry run of the whole model on one rank.
  explicit LayerCosts(const PlanRequest& request);

  const ModelCost& model() const { return model_; }
  /// The one rank's run: what all layouts have in common.
  const RunSetup& whole() const { return whole_; }
  /// Made at the first call for these sizes.
  const LayerCost& of(const Layout& layout);
  /// Seconds of embedding and head of the layout's micro-batch whose logits are made once, whether
  /// the trainer would make them again or not; 0 if that is not known.
  double end_seconds_once(const Layout& layout) const {
    return make(layout, {"model.recompute_logits=false"}).end_seconds;
  }
  /// Pairs of dry runs that were made.
  int64_t made() const { return static_cast<int64_t>(made_.size()); }

 private:
  LayerCost make(const Layout& layout, const std::vector<std::string>& overrides = {}) const;

  PlanRequest request_;
  RunSetup whole_;
  ModelCost model_;
  bool layers_alike_ = true;
  std::map<std::tuple<int, int, int64_t, Recompute>, LayerCost> made_;
};

}  // namespace viaduct
