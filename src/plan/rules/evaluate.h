#pragma once
// All rules on one run, and what the changes that they advise are predicted to do.

#include <functional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {

/// A run with a change.
struct ChangedRun {
  std::string refused;  // why the trainer refuses it; empty: it does not
  double step_seconds = 0, peak_bytes = 0;
  bool fits = false;
};
/// Predicts the run with further overrides. Errors other than refusals are thrown, DeadlineError
/// among them.
using PredictChange =
    std::function<ChangedRun(const std::vector<std::string>& overrides, const Deadline& deadline)>;

struct EvaluationSettings {
  Thresholds limits;
  /// No further change is predicted after this many, or after this many seconds, when one that has
  /// begun is given up.
  int most_predictions = 24;
  double most_seconds = 5;
};

/// A rule and what it found.
struct Verdict {
  std::string_view group;
  Rule rule;
  Finding finding;
};

struct Evaluation {
  std::vector<Verdict> verdicts;  // one for each rule, in the order of the documentation
  int predictions = 0;            // of changes
  int not_predicted = 0;          // changes that were left out
  double seconds = 0;             // that predictions took
  std::string limit;              // what ended them; empty: nothing

  int count(Outcome outcome) const;
};

/// Equal changes are predicted once; those of errors come first, then of warnings, hints and notes.
/// A rule that depends on a gain that was not predicted is `unknown`. `predict` null: no change is
/// predicted, and rules depend only on their condition.
Evaluation evaluate_rules(const Figures& figures, const EvaluationSettings& settings = {},
                          const PredictChange& predict = nullptr);

/// Predicts changes of a file with overrides, on a cluster.
PredictChange predict_changes(std::string file, std::vector<std::string> overrides, Cluster cluster,
                              PredictionSettings settings);

/// "model.x=1 model.y=2: step −4.1 %, peak 12.0 GiB".
std::string advice_text(const Advice& advice);

}  // namespace viaduct::rules
