#pragma once
// Conversion between runs of a parameter's storage (held by a rank, or by its shard of a flat
// optimizer) and pieces of logical tensors (stored in checkpoints).

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

/// Elements of a logical tensor that are dense in a run.
struct LogicalPiece {
  const Part* part = nullptr;  // names the logical tensor
  Piece piece;                 // of it
  int64_t place = 0;           // of its first element, from the start of the run
  /// The run holds the elements column after column of the piece's box (always the whole box then),
  /// not row after row.
  bool by_columns = false;
};

/// The pieces of the parts' logical tensors in a run, in the order of the parts, without padding.
/// The pieces of disjoint runs share no element, and their boxes are equal or disjoint: rows of a
/// part are a range of its box; rows of a transposed part are columns, so each run of whole storage
/// rows, and each partial row, is a separate box. ShapeError if the run is not inside the storage,
/// or if a part does not match its place.
std::vector<LogicalPiece> logical_pieces(const ParameterRun& run);

}  // namespace viaduct
