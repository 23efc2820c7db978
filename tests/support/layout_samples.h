#pragma once
// Layouts of a search with their lower bounds and their predictions.

#include <filesystem>
#include <string>
#include <vector>

#include "plan/layout_setup.h"
#include "plan/predict.h"
#include "plan/search_space.h"
#include "support/training.h"

namespace viaduct::test {

/// A model of about a billion parameters on 8 ranks.
PlanRequest request_of(const Overrides& overrides, const std::string& cluster = "dgx-h100");

/// Every n-th layout of a request with its bounds, by BoundBasis, and its prediction.
struct Sampled {
  Layout layout;
  std::vector<LowerBound> bounds;
  Prediction prediction;
};
/// Without those that the trainer refuses.
std::vector<Sampled> sample(const PlanRequest& request, size_t every);

/// Of the fullest stage.
double peak_of(const Prediction& prediction);

void expect_bounds_below(const std::vector<Sampled>& sampled);

struct TowerModel {
  int blocks = 6;
  bool gemma = false;  // Gemma 3, else LLaVA with SigLIP
};
/// Writes config.json of a model with such a tower beside the text model of `request_of`. Returns
/// "model.hf_config=FOLDER".
std::string folder_with_tower(const std::filesystem::path& folder, const TowerModel& model = {});

}  // namespace viaduct::test
