#pragma once
// The prediction of one configuration as text and as a JSON document.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "hardware/cluster.h"
#include "plan/predict.h"
#include "plan/rules/evaluate.h"
#include "plan_measured.h"

namespace viaduct::cli {

/// What is printed; not owned.
struct PredictedRun {
  const RunSetup& setup;
  const Cluster& cluster;
  const Prediction& prediction;
  const std::string& basis;  // where the times come from, in words
  bool calibrated = false;   // from a table of this machine
};

/// What is predicted of a step, and the peaks of all stages.
nlohmann::ordered_json figures_json(const Prediction& prediction);

void print_prediction(const PredictedRun& of);

/// `measured`: the steps of a run to compare with; none: nothing is compared.
void print_prediction_document(const PredictedRun& of, const std::optional<MeasuredSteps>& measured,
                               const rules::Evaluation& evaluation);

}  // namespace viaduct::cli
