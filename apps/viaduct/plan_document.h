#pragma once
// The result of a search for a layout as a JSON document.

#include "base/json.h"
#include "plan/fitting_changes.h"
#include "plan_request.h"

namespace viaduct::cli {

/// What would make the layout fit that misses by least, if none fits.
FittingChanges changes_that_fit(const PlanSearchOptions& options, const PlanRequest& request,
                                const SearchResult& result);

/// `basis`: where the times come from, in words.
nlohmann::ordered_json search_document(const PlanSearchOptions& options, const PlanRequest& request,
                                       const SearchResult& result, const std::string& basis);

}  // namespace viaduct::cli
