#pragma once
// The state of training besides weights and moments: small numbers, stored as JSON in each
// checkpoint.

#include <cstdint>
#include <optional>
#include <string>

#include "optim/loss_scaler.h"

namespace viaduct {

/// The best evaluation of a run by one metric, and what came after it.
struct BestEvaluation {
  std::string metric;  // as checkpoint.keep_best names it
  double value = 0;
  int64_t step = 0;
  int64_t evaluations_since = 0;
  int64_t judged_step = 0;  // of the last evaluation that was compared
  /// What the values are measured on (measured_on.h); "" in checkpoints of earlier versions.
  std::string measured_on = {};

  bool operator==(const BestEvaluation&) const = default;
};

struct TrainState {
  int64_t step = 0;              // iterations done, skipped ones included
  int64_t updates = 0;           // optimizer updates done: exponent of Adam's bias corrections
  int64_t consumed_samples = 0;  // place in the data
  int64_t consumed_tokens = 0;
  /// Rows that the data were ordered for; 0 in checkpoints of earlier versions.
  int64_t data_rows = 0;
  int64_t schedule_samples =
      0;  // samples of successful updates: place in the learning-rate schedule
  int64_t skipped = 0;
  int64_t nothing_scored = 0;    // of them, for want of a scored token
  int64_t skipped_in_a_row = 0;  // NaN or infinity, up to this step
  LossScalerState scaler;
  /// The seed of the run: dropout masks continue only under the same one. Nothing in a checkpoint
  /// that was saved with checkpoint.save_rng=false.
  std::optional<uint64_t> seed;
  /// Where evaluations are compared (checkpoint.keep_best, train.early_stopping_patience).
  std::optional<BestEvaluation> best;
  /// What the validation loss is measured on (measured_on.h); "" without validation data, and in
  /// checkpoints of earlier versions.
  std::string validated_on = {};

  bool operator==(const TrainState&) const = default;
};

std::string to_json(const TrainState& state);
/// IoError naming `where` for malformed text.
TrainState train_state_from_json(const std::string& text, const std::string& where);

}  // namespace viaduct
