#pragma once
// Random numbers of a token's features, by its global index, as in dropout (ops/elementwise.h): for
// token t and feature h u = uniform_open of word h % 4 of Philox(key; counter low = token_index[t],
// high = h / 4).

#include "base/philox.h"
#include "ops/dispatch.h"

namespace viaduct {

/// out [T, H] = x · (1 + epsilon · (2u − 1)): noise on what a router reads. The gradient is the
/// same op on dy. out may alias x.
struct JitterArgs {
  Tensor x, out;  // of one floating dtype, dense rows
  double epsilon = 0;
  RandomKey key;
  Tensor token_index;  // i64 [T]
};
void jitter(OpContext& context, const JitterArgs& args);

/// out [T, E] = u.
struct RandomRowsArgs {
  Tensor out;  // f32 or f64, dense rows
  RandomKey key;
  Tensor token_index;  // i64 [T]
};
void random_rows(OpContext& context, const RandomRowsArgs& args);

}  // namespace viaduct
