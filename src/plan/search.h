#pragma once
// The search for the fastest layout of a model on a cluster: branch and bound.
//
// Layouts are queued by a lower bound of their step time, which dry runs of one and two layers
// tighten step by step (plan/search_space.h), and the first is predicted by the dry run of the
// whole layout. A layout whose bound of memory is above what a GPU has is rejected without a
// dry run. The search ends when the next bound is above the last of the rows that are to be proven:
// then they are the fastest of all layouts. A time limit may end it earlier, which the result says.
// Then the layouts that miss by least are examined.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "plan/bounds.h"
#include "plan/layer_costs.h"
#include "plan/predict.h"

namespace viaduct {

struct SearchSettings {
  /// What still runs after this many seconds is given up. In the last fifth of them no prediction
  /// begins: it is for those that have begun, and for layouts that do not fit.
  double time_limit_seconds = 8;
  /// While no layout that fits is found, the search goes on up to so many seconds. Less than the
  /// time limit: it does not.
  double first_row_seconds = 0;
  /// Predictions that are closer to each other than this share count as equal.
  double tie_share = 0.03;
  /// This many of the fastest layouts are proven to be that, within the time limit.
  int rows = 5;
  int threads = kPlanThreads;              // dry runs at a time
  Deadline::Clock clock = steady_seconds;  // of the time limit; tests have their own
};

/// A layout that fits.
struct Candidate {
  Layout layout;
  LowerBound bound;
  Prediction prediction;
  std::vector<std::string> notes;  // of its configuration

  int64_t peak_bytes() const;  // of the fullest stage
  double slack_bytes() const;  // left on the fullest GPU
};

/// A layout that needs more memory than a GPU has.
struct Rejected {
  Layout layout;
  double seconds = 0, bytes = 0;                    // of a step; of the fullest stage
  bool exact_seconds = false, exact_bytes = false;  // false: a lower bound
  bool refined = false;                             // the bounds are the closest ones
  /// The fastest layout that differs in one field and fits, by the bytes of its dry run.
  std::optional<Layout> neighbor;
};

struct SearchResult {
  ModelConfig model;
  int64_t ranks = 1, global_batch = 1, length = 1;
  int64_t images_of_row = 0;
  std::string images;  // the same in words, of a model that reads some
  double capacity_bytes = 0;
  std::vector<Candidate> candidates;       // the fastest first
  std::vector<Rejected> rejected;          // the fastest first
  std::map<std::string, int64_t> refused;  // layouts that the trainer refuses, by message
  int64_t layouts = 0;                     // that were enumerated
  int64_t left = 0;  // whose bound of time is above the best, or that were not reached in time
  int64_t dry_runs = 0, layer_costs = 0;
  double seconds = 0;     // that the search took
  double next_bound = 0;  // lower bound of the time of the remaining layouts; 0: none remains
  bool complete = false;  // no remaining layout is faster than the best
  /// Candidates from the first on that are faster than every remaining layout.
  int64_t proven = 0;
  /// Remaining layouts whose predictions the time limit ended.
  std::vector<Layout> given_up;
  std::vector<std::string> not_searched;  // what stays as configured, in words
};

/// ConfigError if the model has no configuration, its ops have no kernels on the cluster's GPU, or
/// no layout divides it.
SearchResult search_layouts(const PlanRequest& request, const SearchSettings& settings = {});

/// Whether no other candidate is both faster and has more memory left.
bool on_pareto_front(const SearchResult& result, const Candidate& candidate);
/// Whether a candidate's prediction is too close to the best one's to rank them.
bool ties_with_best(const SearchResult& result, const Candidate& candidate, double tie_share);

}  // namespace viaduct
