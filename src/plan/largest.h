#pragma once
// The inverse questions: the longest rows, or the maximum number of layers, that fit on a number of
// GPUs in any layout.
//
// For each value the layouts are queued by a lower bound of their memory, and the first is measured
// by its dry run: one that fits ends the search, a bound above a GPU's memory ends it with
// nothing. The values are doubled until nothing fits, then halved in between.

#include <optional>
#include <string>
#include <vector>

#include "plan/search_space.h"

namespace viaduct {

enum class LargestOf { tokens, layers };

/// Values that are tried are multiples of it.
int64_t step_of(LargestOf question);

struct LargestFit {
  int64_t value = 0;  // 0: nothing fits
  Layout layout;      // the layout that needs the least memory
  double bytes = 0;   // of its fullest stage
  /// The next step, which does not fit: its minimum bytes, or why it was not tried.
  double next_bytes = 0;
  std::string next_refused;
  bool proven = false;  // false: the time limit was reached first, so more may fit
  int64_t dry_runs = 0;
  double seconds = 0;
  double capacity_bytes = 0;
};

/// Of layouts with one row in a micro-batch, unless the request gives the rows, and with the fewest
/// virtual stages; others need more memory.
/// ConfigError as of `search_layouts` if the smallest value has no layout.
LargestFit largest_that_fits(const PlanRequest& request, LargestOf question,
                             double time_limit_seconds);

/// The request with that many tokens of a row, or layers.
PlanRequest with_value(const PlanRequest& request, LargestOf question, int64_t value);

}  // namespace viaduct
