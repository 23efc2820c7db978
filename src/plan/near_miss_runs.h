#pragma once
// After a search: the layouts that might be faster but do not fit, measured by their dry runs, with
// one field whose change makes them fit.

#include <memory>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "plan/search.h"
#include "plan/search_space.h"

namespace viaduct {

/// Dry runs that a search began, by layout.
using LayoutRuns = std::vector<std::pair<Layout, std::unique_ptr<StageRuns>>>;

/// Replaces the bounds of the layouts of `result.rejected` that miss by least by closer ones, then
/// by the results of dry runs, and finds what would make them fit, until `deadline`. Layouts
/// that the trainer refuses go to `result.refused`. `begun` are continued.
void look_at_near_misses(const PlanRequest& request,
                         const std::vector<std::unique_ptr<SearchSpace>>& spaces, ThreadPool& pool,
                         LayoutRuns begun, SearchResult& result, const Deadline& deadline);

}  // namespace viaduct
