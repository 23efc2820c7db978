#pragma once
// The part of a parameter that this rank updates: a run of its row-major storage. The optimizer,
// the gradient norm, initialization and checkpoints loop over runs; with one shard a run is a whole
// parameter.

#include <vector>

#include "nn/parameter.h"
#include "sharding/buffer_layout.h"
#include "tensor/state_formats.h"

namespace viaduct {

struct ShardRun {
  const Parameter* parameter = nullptr;
  Range range;  // elements of the parameter's row-major storage
  /// Flat views of these elements. `master` is the weight itself where the recipe has no separate
  /// one and in stores without gradients, which have no `gradient`. Where main gradients are
  /// narrower than FP32, `gradient` is an FP32 copy from the end of the reductions to the begin of
  /// the next step, unless the optimizer reads narrow ones, and the main gradient at other times.
  Tensor weight, master, gradient;
  Tensor master_scales;  // f32 [state_groups], of masters in a scaled format
  /// Optimizers update only the master: the store writes the weight after the update.
  bool store_writes_weight = false;

  /// The master in its stored format: FP32 or FP64, or in a format of tensor/state_formats.h.
  StateValues master_state() const {
    return {master, master_scales, master.dtype() == DType::i16 ? weight : Tensor()};
  }
};

/// Whether a run's weight is stored as codes (stored_codes.h), so that no op writes it beside the
/// master.
inline bool has_codes(const ShardRun& run) {
  return run.weight.defined() &&
         (run.weight.dtype() == DType::e4m3 || run.weight.dtype() == DType::e2m1x2);
}

/// Elements of a storage row; 1 for vectors.
int64_t row_elements(const Parameter& parameter);

/// The elements of `part` in the row-major storage of its parameter.
Range part_range(const Parameter& parameter, const Part& part);

/// The elements of a run that count in norms, each logical element of the model on one rank of
/// `statistics`: of parts that this rank owns, neighbours joined.
std::vector<Range> counted_ranges(const ShardRun& run);

/// A rectangle of a matrix whose elements are contiguous in its row-major storage.
struct Rectangle {
  int64_t row = 0, column = 0, rows = 0, columns = 0;

  int64_t elements() const { return rows * columns; }
  bool operator==(const Rectangle&) const = default;
};

/// Cuts elements [begin, end) of a row-major matrix into the fewest such rectangles, in order: the
/// rest of a row, whole rows, the begin of a row.
std::vector<Rectangle> rectangles(const Range& range, int64_t row_elements);

}  // namespace viaduct
