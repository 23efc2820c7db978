#pragma once
// Changes of a configuration, beyond its layout, under which a layout that needs too much memory
// would fit: each is tried by a dry run.

#include <string>
#include <vector>

#include "plan/search.h"

namespace viaduct {

struct FittingChange {
  std::string text;                    // "moments in BF16"
  std::vector<std::string> overrides;  // section.field=value
  double bytes = 0;                    // of the fullest stage with the change
  double excess_bytes = 0;             // above what a GPU has; 0 or less: it fits
};

struct FittingChanges {
  /// Those that fit, the smallest change of the run first; if none fits, the nearest ones.
  std::vector<FittingChange> changes;
  size_t not_tried = 0;  // because the deadline passed
};

/// At most `most` changes.
FittingChanges fitting_changes(const PlanRequest& request, const SearchResult& result,
                               const Layout& layout, const Deadline& deadline, size_t most = 3);

/// One sentence.
std::string text_of(const FittingChange& change);

}  // namespace viaduct
