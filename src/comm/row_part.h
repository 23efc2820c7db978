#pragma once
// Rows that several ranks have together, each a run of equally many, the last ones fewer.

#include <algorithm>
#include <cstdint>

namespace viaduct {

/// Rows [begin, begin + rows).
struct RowPart {
  int64_t begin = 0, rows = 0;

  /// Rows of each part but the last ones.
  static int64_t most(int64_t all, int parts) { return (all + parts - 1) / parts; }
  static RowPart of(int64_t all, int parts, int part) {
    const int64_t each = most(all, parts), first = std::min(all, part * each);
    return {first, std::min(all - first, each)};
  }
};

}  // namespace viaduct
