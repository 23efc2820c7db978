#pragma once
// Types of the kernels of a score matrix for an instruction set.

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/vector_choice.h"
#include "ops/score_matrix.h"

namespace viaduct::cpu {

// Queries and keys of a block of products.
inline constexpr int64_t kScoreBlock = 256;
// Number of keys transposed at once.
inline constexpr int64_t kScoreKeys = 64;

/// Rows of one head of queries or keys: an element is data[row · stride + i].
struct ScoreSide {
  DType dtype = DType::f32;
  char* data = nullptr;
  int64_t stride = 0;  // elements
};

/// The products of `queries` rows of a head with the `keys` rows of its document. The matrix starts
/// at the first of these queries; `queries` ≤ kScoreBlock for scores and values, `keys` ≤
/// kScoreBlock for keys.
struct ScoreBlock {
  float* matrix = nullptr;
  int64_t row = 0;  // floats between rows of the matrix
  int64_t query_count = 0, key_count = 0, width = 0;
  ScoreSide queries, keys;
  bool accumulate = false;  // of `values`
};

/// The scores of one query: keys [first, last) of `count` are seen.
struct ScoreRow {
  float* scores = nullptr;
  int64_t count = 0, first = 0, last = 0;
  float scale = 1, softcap = 0;
  float* lse = nullptr;
  float delta = 0;
};

/// Random words of one row (base/philox.h).
struct ScoreDraw {
  uint64_t key = 0, token = 0;
  uint32_t head = 0;
  const int32_t* positions = nullptr;  // null: counted from 0
  int32_t threshold = 0;
  float factor = 1;
};

struct ScoreKernels {
  void (*product)(ScoreProduct form, const ScoreBlock& block, float* scratch);
  void (*softmax)(const ScoreParts& parts, const ScoreRow& row, bool known_lse);
  /// `row.scores` is the gradient.
  void (*softmax_backward)(const ScoreParts& parts, const ScoreRow& row,
                           const float* probabilities);
  void (*dropout)(const ScoreDraw& draw, const float* x, float* out, int64_t count);
};

/// Floats of scratch of `product`.
inline int64_t score_scratch(int64_t width) {
  return (2 * kScoreBlock + kScoreKeys) * width;
}

VIADUCT_KERNELS(ScoreKernels, score_kernels)

}  // namespace viaduct::cpu
