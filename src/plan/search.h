#pragma once
// The search for the fastest layout of a model on a cluster: branch and bound.
//
// Layouts wait in order of a lower bound of their step time, which dry runs of one and two layers
// make closer step by step (plan/search_space.h), and the foremost is predicted by the dry run of
// the whole layout. A layout whose bound of memory is above what a GPU has is rejected without a
// dry run. The search is complete when the next bound is above the best prediction; a limit of time
// may end it before, which the result says. Then the layouts that miss by least are looked at.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/bounds.h"
#include "plan/layer_costs.h"
#include "plan/predict.h"

namespace viaduct {

struct SearchSettings {
  /// No further dry run begins after so many seconds, a fifth of them for what does not fit.
  double time_limit_seconds = 8;
  /// Predictions that are closer to each other than this share count as equal.
  double tie_share = 0.03;
  /// So many layouts that fit are predicted if there are as many, within the limit of time.
  int least_candidates = 5;
  int threads = kPlanThreads;  // dry runs at a time
};

/// A layout that fits.
struct Candidate {
  Layout layout;
  LowerBound bound;
  Prediction prediction;
  std::vector<std::string> notes;  // of its configuration

  int64_t peak_bytes() const;  // of the fullest stage
  double slack_bytes() const;  // that are left on the fullest GPU
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
  double capacity_bytes = 0;
  std::vector<Candidate> candidates;       // the fastest first
  std::vector<Rejected> rejected;          // the fastest first
  std::map<std::string, int64_t> refused;  // layouts that the trainer refuses, by message
  int64_t layouts = 0;                     // that were enumerated
  int64_t left = 0;  // whose bound of time is above what was found, or that time ended before
  int64_t dry_runs = 0, layer_costs = 0;
  double seconds = 0;     // that the search took
  double next_bound = 0;  // of the time of the layouts that are left; 0: none is left
  bool complete = false;  // no layout that is left is faster than the best, or ties with it
  std::vector<std::string> not_searched;  // what stays as the configuration says, in words
};

/// ConfigError if the model has no configuration, its ops have no kernels on the cluster's GPU, or
/// no layout divides it.
SearchResult search_layouts(const PlanRequest& request, const SearchSettings& settings = {});

/// Whether no other candidate is both faster and has more memory left.
bool on_pareto_front(const SearchResult& result, const Candidate& candidate);
/// Whether a candidate's prediction cannot be told from the best one's.
bool ties_with_best(const SearchResult& result, const Candidate& candidate, double tie_share);

}  // namespace viaduct
