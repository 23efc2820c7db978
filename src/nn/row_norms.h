#pragma once
// Norms of the rows of a linear layer's weight with its low-rank term, W + s · B A. The sum is made
// in FP32 (FP64 for f64), some rows at a time, and its squares are added up: nothing cancels, as in
// ‖W‖² + 2s · W·BA + s² · ‖BA‖². They are statistics of the RMS norm op, whose rstd of a row of N
// elements is √N / norm.

#include <string>
#include <unordered_map>

#include "nn/context.h"

namespace viaduct {

/// Elements of the FP32 temporaries of a chunk of rows.
inline constexpr int64_t kRowTileElements = int64_t{1} << 22;

/// What is added to a weight [rows, in].
struct LowRankSum {
  Tensor a, b;  // [r, in], [rows, r]
  double scale = 1;
};

/// 1 / ‖row‖ [rows] of `weight` [rows, in], with `added` of the sum. `cut`: the tensor ranks have
/// each a part of the input features, of equal size; all of them call this. A row of zeros counts
/// as one of 1e-15 each. Memory: a tile of at most 16 MiB (FP32), or of one row.
Tensor inverse_row_norms(RankContext& context, const Tensor& weight, const LowRankSum* added,
                         bool cut);

/// 1 / x [n] for x > 0 in the statistics' format.
Tensor reciprocals(RankContext& context, const Tensor& x);

/// What an engine that never changes its weights keeps of adapters with magnitudes: the factor f
/// [features] of each (nn/low_rank.h), made at its first use. A step of generation has one token,
/// and norms read the whole weight.
class MagnitudeFactors {
 public:
  /// That of `magnitudes` in the weights of this generation of the store; undefined: not made yet.
  Tensor& of(const Parameter& magnitudes) { return factors_[magnitudes.path]; }
  /// Forgets the factors of an earlier generation.
  void begin(int64_t generation) {
    if (generation != generation_) factors_.clear();
    generation_ = generation;
  }

 private:
  std::unordered_map<std::string, Tensor> factors_;  // by path
  int64_t generation_ = -1;
};

}  // namespace viaduct
