#pragma once
// The options of a search for a layout, what they ask the planner for, and what a result costs.

#include <optional>
#include <string>
#include <vector>

#include "plan/search.h"

namespace viaduct::cli {

struct PlanSearchOptions {
  std::string model;
  std::string ranks;  // one number, or several with commas between them
  std::optional<int64_t> global_batch, sequence_length;
  std::optional<std::string> precision;  // bf16, unless a training configuration says
  std::optional<double> tokens, price;
  std::optional<double> deadline, budget;  // days; US dollars
  int top = 5;
  std::optional<double> time_limit;       // seconds
  std::string write;                      // a file; empty: none
  bool weak = false;                      // the global batch grows with the ranks
  std::vector<std::string> vary;          // as of variants_of
  bool longest = false, largest = false;  // the questions of plan/largest.h
  std::vector<std::string> overrides;
  bool json = false, spec_sheet = false;

  /// Of a search, unless nothing fits by then.
  double seconds() const { return time_limit.value_or(8); }
};

/// The numbers of --ranks. ConfigError unless they are ascending numbers of at least 1.
std::vector<int64_t> rank_counts(const std::string& text);

/// ConfigError if the model or the precision is not one of the planner's.
PlanRequest plan_request(const PlanSearchOptions& options, const Cluster& cluster, int64_t ranks,
                         int64_t global_batch);

/// The same for the layouts of a finished search, of a training of --tokens: with the number of
/// steps that they take, unless the overrides give one.
PlanRequest with_tokens(PlanRequest request, const PlanSearchOptions& options,
                        const SearchResult& result);

SearchSettings search_settings(const PlanSearchOptions& options);

/// What the whole training takes; nothing without --tokens, no cost without a price.
struct Bill {
  std::optional<double> days, usd;
};

Bill bill_of(const PlanSearchOptions& options, const Cluster& cluster, int64_t ranks,
             const Prediction& prediction);

}  // namespace viaduct::cli
