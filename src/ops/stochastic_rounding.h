#pragma once
// Random numbers of stochastic rounding: 16 bits for each element of a matrix [tokens, features],
// from Philox(key; counter low = the token's global index, high = feature / 8): word feature % 8 /
// 2, its lower half for even features. An element keeps its bits in every layout, on any number of
// threads, and when it is rounded again.

#include <vector>

#include "base/philox.h"
#include "tensor/tensor.h"

namespace viaduct {

/// The columns from `begin` on, to the next run, are features first, first + 1, … of all features
/// that any rank has.
struct FeatureRun {
  int64_t begin = 0;
  uint64_t first = 0;
};

struct StochasticRounding {
  RandomKey key;
  Tensor token_index;                // i64 [rows of the matrix]; undefined: to nearest even
  std::vector<FeatureRun> features;  // the first begins at 0
  bool defined() const { return token_index.defined(); }
  /// Of rows [begin, begin + count) of the matrix.
  StochasticRounding rows(int64_t begin, int64_t count) const {
    StochasticRounding part = *this;
    if (part.token_index) part.token_index = part.token_index.slice(0, begin, count);
    return part;
  }
};

}  // namespace viaduct
