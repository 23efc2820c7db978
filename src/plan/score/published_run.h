#pragma once
// A published training run as a configuration of ours: its model, layout and features, as far as
// the table states them.

#include <optional>
#include <string>
#include <vector>

#include "plan/score/published_table.h"

namespace viaduct {

struct PublishedRun {
  std::vector<std::string> overrides;  // of a configuration
  std::vector<std::string> notes;      // what was assumed, or is computed differently
  int64_t batch = 1, stages = 1;       // rows of a step, pipeline stages
  int64_t micro_batches = 0;           // of a step; 0: they do not divide the batch
  /// Kernels of the code that differ from ours, as in OpTimeSettings.
  bool library_attention = false;
  std::optional<double> attention_share = {}, extra_passes = {};
  double product_repeats = 1, activation_gradient_delay = 0;
  /// Of its host, as in PredictionSettings.
  double expert_product_seconds = 0;
  std::optional<double> launch_seconds = {};
};

/// The whole number that a run's overrides give a field; 0 if they do not.
int64_t override_value(const PublishedRun& run, const std::string& field);

/// Of a table of throughput. UnsupportedRow for what the trainer does not have or the row does not
/// state. The configuration itself may still be refused.
PublishedRun published_run(const PublishedRow& row);

/// Tokens a second a GPU, as stated, or of the step's seconds, or of model FLOP/s by the convention
/// of the source; `notes` gets which. Nothing if none is stated.
std::optional<double> published_throughput(const PublishedRow& row,
                                           std::vector<std::string>& notes);

}  // namespace viaduct
