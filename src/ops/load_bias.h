#pragma once
// The bias of a router that makes the load of its experts equal without a loss: it affects only the
// choice. Each update moves it by a fixed step (Wang et al. 2024, arXiv 2408.15664), or sets it
// (ops/load_quantile.h).

#include "ops/dispatch.h"

namespace viaduct {

/// out_e (= or +=) E · n_e − Σ n of choices `counts` = n: the excess of expert e over an equal
/// share. Integers, so sums over micro-batches and ranks are exact below 2^24.
struct LoadErrorArgs {
  Tensor counts;  // i64 [E]
  Tensor out;     // f32 or f64 [E], contiguous
  WriteMode mode = WriteMode::assign;
};
void load_error(OpContext& context, const LoadErrorArgs& args);

/// bias ← bias − rate · sign(error) (the reference's algorithm 1), or with `set` bias ← error, over
/// a run of a bias; nothing if the skip slot of `scalars` is set. An error that is not a number
/// moves nothing.
struct MoveLoadBiasArgs {
  Tensor bias;    // f32 or f64 [n], contiguous
  Tensor error;   // f32 or f64 [n], contiguous; with `set` the new bias
  Tensor weight;  // optional, floating [n]: receives the new value rounded
  Tensor scalars;
  double rate = 0;
  bool set = false;
};
void move_load_bias(OpContext& context, const MoveLoadBiasArgs& args);

}  // namespace viaduct
