#include "checkpoint/logical_runs.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

/// Elements [begin, end) of the storage of a transposed part, which has rows of `columns`: the rest
/// of the first row, whole rows, and the start of the last one.
void add_transposed(const Part& part, int64_t columns, int64_t begin, int64_t end, int64_t place,
                    std::vector<LogicalPiece>& pieces) {
  while (begin < end) {
    const int64_t row = begin / columns, column = begin % columns;
    const bool whole_rows = column == 0 && end - begin >= columns;
    const int64_t rows = whole_rows ? (end - begin) / columns : 1;
    const int64_t width = whole_rows ? columns : std::min(columns - column, end - begin);
    const Box box{{part.box.begin[0] + column, part.box.begin[1] + row}, {width, rows}};
    pieces.push_back({&part, whole_piece(box), place, true});
    begin += rows * width;
    place += rows * width;
  }
}

}  // namespace

ParameterRun whole_run(const Parameter& parameter) {
  return {&parameter, 0, parameter.shape.elements()};
}

std::vector<LogicalPiece> logical_pieces(const ParameterRun& run) {
  const Parameter& parameter = *run.parameter;
  VIADUCT_CHECK(ShapeError,
                0 <= run.begin && run.begin <= run.end && run.end <= parameter.shape.elements(),
                "{}: run [{}, {}) of a storage {}", parameter.path, run.begin, run.end,
                to_string(parameter.shape));
  const int64_t columns = parameter.shape.rank() > 1 ? parameter.shape[1] : 1;
  std::vector<LogicalPiece> pieces;
  for (const Part& part : parameter.parts) {
    const int64_t first = part.storage_row * columns, last = first + part.rows() * columns;
    VIADUCT_CHECK(ShapeError,
                  is_inside(part.box, part.logical_shape) && first >= 0 &&
                      last <= parameter.shape.elements() &&
                      part.box.size.elements() == last - first &&
                      (!part.transposed || part.box.size.rank() == 2),
                  "{}: {} of {} {} does not fit at row {} of a storage {}", parameter.path,
                  to_string(part.box), part.name, to_string(part.logical_shape), part.storage_row,
                  to_string(parameter.shape));
    const int64_t begin = std::max(run.begin, first), end = std::min(run.end, last);
    if (begin >= end) continue;
    if (part.transposed) {
      add_transposed(part, columns, begin - first, end - first, begin - run.begin, pieces);
    } else {
      pieces.push_back({&part, {part.box, begin - first, end - first}, begin - run.begin, false});
    }
  }
  return pieces;
}

}  // namespace viaduct
