#pragma once
// Between runs of a parameter's storage (what a rank, or its shard of a flat optimizer, holds) and
// pieces of logical tensors (what a checkpoint stores).

#include <vector>

#include "checkpoint/box.h"
#include "nn/parameter.h"

namespace viaduct {

/// The elements [begin, end) of a parameter's storage on this rank, in row-major order.
struct ParameterRun {
  const Parameter* parameter = nullptr;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t elements() const { return end - begin; }
};

/// All of a parameter's storage.
ParameterRun whole_run(const Parameter& parameter);

/// Elements of a logical tensor that lie densely in a run.
struct LogicalPiece {
  const Part* part = nullptr;  // names the logical tensor
  Piece piece;                 // of it
  int64_t place = 0;           // of its first element, from the start of the run
  /// The run holds the elements column after column of the piece's box (always the whole box then),
  /// not row after row.
  bool by_columns = false;
};

/// What of the parts' logical tensors a run holds, in the order of the parts; padding is in none.
/// The pieces of disjoint runs share no element, and their boxes are equal or disjoint: rows of a
/// part are a range of its box; of a transposed part they are columns, so each run of whole storage
/// rows, and each part of one, is a box of its own. ShapeError if the run is not inside the
/// storage, or a part and its place do not fit.
std::vector<LogicalPiece> logical_pieces(const ParameterRun& run);

}  // namespace viaduct
