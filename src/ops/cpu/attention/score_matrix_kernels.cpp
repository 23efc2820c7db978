// instruction sets: portable avx2 avx512
// Kernels of a score matrix, compiled per instruction set. The single steps and those together do
// the same arithmetic in the same order: their bits are the same.

#include <math.h>

#include "ops/cpu/attention/block_product.h"
#include "ops/cpu/attention/score_matrix_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_philox.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/// Rows [begin, begin + count) of a side as dense floats.
void widen_rows(const ScoreSide& side, int64_t begin, int64_t count, int64_t width, float* to) {
  with_floats(side.dtype, static_cast<const void*>(side.data), [&](const auto* from) {
    for (int64_t r = 0; r < count; ++r) {
      const auto* row = from + (begin + r) * side.stride;
      for_row(width, [&](int64_t i, auto... tail) {
        store(to + r * width + i, load(row + i, tail...), tail...);
      });
    }
  });
}

void multiply_scores(const ScoreBlock& b, float* scratch) {
  float* queries = scratch;
  float* keys = queries + kScoreBlock * b.width;     // [keys][width]
  float* transposed = keys + kScoreBlock * b.width;  // [width][kScoreKeys]
  widen_rows(b.queries, 0, b.query_count, b.width, queries);
  for (int64_t begin = 0; begin < b.key_count; begin += kScoreKeys) {
    const int64_t count = smaller(kScoreKeys, b.key_count - begin);
    widen_rows(b.keys, begin, count, b.width, keys);
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t i = 0; i < b.width; ++i) transposed[i * kScoreKeys + j] = keys[j * b.width + i];
    }
    block_product<false>(b.query_count, count, b.width, queries, b.width, transposed, kScoreKeys,
                         b.matrix + begin, b.row, false);
  }
}

void multiply_values(const ScoreBlock& b, float* scratch) {
  float* sums = scratch;
  float* keys = sums + kScoreBlock * b.width;
  for (int64_t i = 0; i < b.query_count * b.width; ++i) sums[i] = 0;
  for (int64_t begin = 0; begin < b.key_count; begin += kScoreBlock) {
    const int64_t count = smaller(kScoreBlock, b.key_count - begin);
    widen_rows(b.keys, begin, count, b.width, keys);
    block_product<false>(b.query_count, b.width, count, b.matrix + begin, b.row, keys, b.width,
                         sums, b.width, true);
  }
  with_floats(b.queries.dtype, static_cast<void*>(b.queries.data), [&](auto* out) {
    for (int64_t r = 0; r < b.query_count; ++r) {
      auto* row = out + r * b.queries.stride;
      for_row(b.width, [&](int64_t i, auto... tail) {
        const Vec sum = load(sums + r * b.width + i, tail...);
        store(row + i, b.accumulate ? add(load(row + i, tail...), sum) : sum, tail...);
      });
    }
  });
}

void multiply_keys(const ScoreBlock& b, float* scratch) {
  float* queries = scratch;
  auto* sums = reinterpret_cast<float*>(b.keys.data);
  for (int64_t begin = 0; begin < b.query_count; begin += kScoreBlock) {
    const int64_t count = smaller(kScoreBlock, b.query_count - begin);
    widen_rows(b.queries, begin, count, b.width, queries);
    block_product<true>(b.key_count, b.width, count, b.matrix + begin * b.row, b.row, queries,
                        b.width, sums, b.keys.stride, true);
  }
}

void product(ScoreProduct form, const ScoreBlock& block, float* scratch) {
  switch (form) {
    case ScoreProduct::scores:
      return multiply_scores(block, scratch);
    case ScoreProduct::values:
      return multiply_values(block, scratch);
    case ScoreProduct::keys:
      return multiply_keys(block, scratch);
  }
}

void scale_row(const ScoreRow& row) {
  const bool capped = row.softcap > 0;
  const Vec scale = set1(row.scale), cap = set1(row.softcap);
  const Vec inverse_cap = set1(capped ? 1.0f / row.softcap : 0.0f);
  for_row(row.count, [&](int64_t j, auto... tail) {
    Vec s = mul(scale, load(row.scores + j, tail...));
    if (capped) s = mul(cap, tanh(mul(s, inverse_cap)));
    store(row.scores + j, s, tail...);
  });
}

void mask_row(const ScoreRow& row) {
  const float hidden = -__builtin_inff();
  for (int64_t j = 0; j < smaller(row.first, row.count); ++j) row.scores[j] = hidden;
  for (int64_t j = row.last < 0 ? 0 : row.last; j < row.count; ++j) row.scores[j] = hidden;
}

void exponentials(const ScoreRow& row, bool known_lse) {
  const float none = -__builtin_inff();
  if (!known_lse) {
    Vec most = set1(none);
    float rest = none;
    int64_t j = 0;
    for (; j + kLanes <= row.count; j += kLanes) most = maximum(most, load(row.scores + j));
    for (; j < row.count; ++j) rest = rest < row.scores[j] ? row.scores[j] : rest;
    const float top = largest(most);
    const float base = top < rest ? rest : top;
    if (base == none) {
      *row.lse = none;
    } else {
      Vec total = zero();
      const Vec b = set1(base);
      for (j = 0; j + kLanes <= row.count; j += kLanes)
        total = add(total, exp(sub(load(row.scores + j), b)));
      float sum_of_all = sum(total);
      if (j < row.count) {
        const Mask k = first(row.count - j);
        sum_of_all += sum(select(k, exp(sub(load(row.scores + j, k), b)), zero()));
      }
      *row.lse = base + ::logf(sum_of_all);
    }
  }
  // A query without visible keys: e^(−inf − inf) = 0.
  const Vec lse = set1(*row.lse == none ? __builtin_inff() : *row.lse);
  for_row(row.count, [&](int64_t j, auto... tail) {
    store(row.scores + j, exp(sub(load(row.scores + j, tail...), lse)), tail...);
  });
}

void softmax(const ScoreParts& parts, const ScoreRow& row, bool known_lse) {
  if (parts.scale) scale_row(row);
  if (parts.mask) mask_row(row);
  if (parts.softmax) exponentials(row, known_lse);
}

void softmax_backward(const ScoreParts& parts, const ScoreRow& row, const float* probabilities) {
  const bool capped = row.softcap > 0;
  const Vec delta = set1(row.delta), scale = set1(row.scale);
  for_row(row.count, [&](int64_t j, auto... tail) {
    Vec d = load(row.scores + j, tail...);
    if (parts.softmax) d = mul(load(probabilities + j, tail...), sub(d, delta));
    if (parts.scale && !capped) d = mul(d, scale);
    store(row.scores + j, d, tail...);
  });
  if (!parts.scale || !capped) return;
  for (int64_t j = 0; j < row.count; ++j) {
    // p was computed from the capped score.
    const float p = probabilities[j];
    const float t = p == 0 ? 0.0f : (::logf(p) + *row.lse) / row.softcap;
    row.scores[j] *= row.scale * (1 - t * t);
  }
}

void dropout(const ScoreDraw& draw, const float* x, float* out, int64_t count) {
  const Words threshold = words(static_cast<uint32_t>(draw.threshold));
  const Vec factor = set1(draw.factor);
  for (int64_t j = 0; j < count; j += kLanes) {
    uint32_t position[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t at = smaller(j + lane, count - 1);
      position[lane] = static_cast<uint32_t>(draw.positions != nullptr ? draw.positions[at] : at);
    }
    Words c0 = words(static_cast<uint32_t>(draw.token));
    Words c1 = words(static_cast<uint32_t>(draw.token >> 32));
    Words c2 = load_words(position), c3 = words(draw.head);
    philox_rounds(draw.key, c0, c1, c2, c3);
    const Vec factors = keep(c0, threshold, factor);
    if (j + kLanes <= count) {
      store(out + j, mul(load(x + j), factors));
    } else {
      const Mask k = first(count - j);
      store(out + j, mul(load(x + j, k), factors), k);
    }
  }
}

}  // namespace

const ScoreKernels score_kernels{product, softmax, softmax_backward, dropout};

}  // namespace viaduct::cpu::VIADUCT_ISA
