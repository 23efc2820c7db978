#include "sharding/shard_run.h"

#include <algorithm>

namespace viaduct {

int64_t row_elements(const Parameter& parameter) {
  return parameter.shape.rank() > 1 ? parameter.shape[1] : 1;
}

Range part_range(const Parameter& parameter, const Part& part) {
  const int64_t columns = row_elements(parameter);
  return {part.storage_row * columns, (part.storage_row + part.rows()) * columns};
}

std::vector<Range> counted_ranges(const ShardRun& run) {
  std::vector<Range> ranges;
  for (const Part& part : run.parameter->parts) {
    if (!part.owned) continue;
    const auto here = overlap(run.range, part_range(*run.parameter, part));
    if (!here) continue;
    if (!ranges.empty() && ranges.back().end == here->begin) {
      ranges.back().end = here->end;
    } else {
      ranges.push_back(*here);
    }
  }
  return ranges;
}

std::vector<Rectangle> rectangles(const Range& range, int64_t row_elements) {
  std::vector<Rectangle> list;
  for (int64_t at = range.begin; at < range.end;) {
    const int64_t column = at % row_elements;
    const bool whole_rows = column == 0 && range.end - at >= row_elements;
    Rectangle next{at / row_elements, column, 1, std::min(row_elements - column, range.end - at)};
    if (whole_rows) next.rows = (range.end - at) / row_elements;
    at += next.elements();
    list.push_back(next);
  }
  return list;
}

}  // namespace viaduct
