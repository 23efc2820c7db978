#pragma once
// The steps of softmax cross entropy as separate ops, each with its result in memory;
// `cross_entropy_forward` and `cross_entropy_backward` fuse them. They work on the first `columns`
// columns of rows [t, V] (the rest is padding of the vocabulary); f32 or f64 throughout, rows may
// be strided.

#include "ops/dispatch.h"

namespace viaduct {

/// The target of row t is column ids[t] − first_column; a row has none where its id is −1 or the
/// column is not among those that the op works on.
struct RowTargets {
  Tensor ids;  // i32 [t]
  int64_t first_column = 0;
};

/// A value of each row.
enum class RowValue {
  largest,  // −∞ without columns
  sum,
  pick,  // the element at the target; 0 without one
};

struct ReduceRowsArgs {
  RowValue value = RowValue::sum;
  Tensor x, out;  // [t, V] to [t]
  int64_t columns = 0;
  RowTargets targets = {};  // of pick
};

/// Recorded as row_largest, row_sum or row_pick.
void reduce_rows(OpContext& context, const ReduceRowsArgs& args);

/// A new value of each element.
enum class RowMap {
  soft_cap,           // cap · tanh(x / cap), cap > 0
  soft_cap_backward,  // x · (1 − (by / cap)²): by [t, V] is the output of soft_cap
  exponential,        // exp(x − by[t])
  divide,             // x / by[t]
  loss_backward,      // weight[t] · factor · (x − onehot(target)); 0 where weight is 0
};

/// out = map(x), 0 in the padding. out may be x.
struct MapRowsArgs {
  RowMap map = RowMap::divide;
  Tensor x, out;  // [t, V]
  int64_t columns = 0;
  Tensor by = {};
  double cap = 0;
  // Of loss_backward:
  RowTargets targets = {};
  Tensor weight = {};  // f32 [t]
  Tensor factor = {};  // f64 [1] in device memory
};

/// Recorded as soft_cap, soft_cap_backward, row_exponential, row_divide or softmax_loss_backward.
void map_rows(OpContext& context, const MapRowsArgs& args);

}  // namespace viaduct
