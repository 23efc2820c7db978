// Part of attention_kernels.cpp: the forward of one query of a group of heads. A score is summed
// over the width, and a value over the keys of a block, in the order of forward_rows; lanes are
// keys in the first sum and elements of the value in the second.

#include "ops/cpu/tiles/tile_units.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

constexpr int64_t kValueVectors = kLanes == 16 ? 4 : 2;

/// Prefetches the rows of the keys (or values) [begin, end).
template <class T>
inline void fetch_keys(const void* from, int64_t token, int64_t begin, int64_t end, int64_t width) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t j = begin; j < end; ++j) {
    const T* row = static_cast<const T*>(from) + j * token;
    for (int64_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i, 0, 2);
  }
}

/// Rows [0, height) × elements [0, size) of memory, transposed: element by element, kLanes rows
/// each. Zero outside.
template <class T>
inline void load_transposed(const T* from, int64_t stride, int64_t height, int64_t size,
                            Units (&square)[kLanes]) {
  if (height >= kLanes && size >= kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) square[i] = as_units(load(from + i * stride));
  } else {
    const Mask mask = first(smaller(size, kLanes));
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i)
      square[i] = as_units(i < height ? load(from + i * stride, mask) : zero());
  }
  transpose(square);
}

/// scores[r][j] = q_r · k_j for kHeads heads and the keys [0, count).
template <class T, int kHeads>
void one_query_scores(const float* q, const T* keys, int64_t token, int64_t count, int64_t width,
                      float* scores) {
  for (int64_t j = 0; j < count; j += kLanes) {
    Vec sums[kHeads];
#pragma GCC unroll 4
    for (int r = 0; r < kHeads; ++r) sums[r] = zero();
    for (int64_t i = 0; i < width; i += kLanes) {
      Units square[kLanes];
      load_transposed(keys + j * token + i, token, count - j, width - i, square);
      const int64_t units = smaller(kLanes, width - i);
      if (units == kLanes) {
#pragma GCC unroll 16
        for (int u = 0; u < kLanes; ++u) {
#pragma GCC unroll 4
          for (int r = 0; r < kHeads; ++r)
            sums[r] = fma(as_floats(square[u]), set1(q[r * width + i + u]), sums[r]);
        }
      } else {
        for (int64_t u = 0; u < units; ++u) {
#pragma GCC unroll 4
          for (int r = 0; r < kHeads; ++r)
            sums[r] = fma(as_floats(square[u]), set1(q[r * width + i + u]), sums[r]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kHeads; ++r) store(scores + r * kKeys + j, sums[r]);
  }
}

/// out_r += Σ_j p[r][j] · v_j for kHeads heads, the sum from zero.
template <class T, int kHeads>
void one_query_values(const float* p, const T* values, int64_t token, int64_t count, int64_t width,
                      float* out) {
  for (int64_t begin = 0; begin < width; begin += kValueVectors * kLanes) {
    const int64_t vectors = smaller(kValueVectors, (width - begin + kLanes - 1) / kLanes);
    const auto add_up = [&]<int kVectors>() {
      const int64_t rest = width - begin - (kVectors - 1) * kLanes;  // of the last vector
      const Mask last = first(smaller(rest, kLanes));
      Vec sums[kHeads][kVectors];
#pragma GCC unroll 4
      for (int r = 0; r < kHeads; ++r) {
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; ++n) sums[r][n] = zero();
      }
      for (int64_t j = 0; j < count; ++j) {
        const T* row = values + j * token + begin;
        Vec v[kVectors];
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; ++n) {
          v[n] = n == kVectors - 1 && rest < kLanes ? load(row + n * kLanes, last)
                                                    : load(row + n * kLanes);
        }
#pragma GCC unroll 4
        for (int r = 0; r < kHeads; ++r) {
          const Vec weight = set1(p[r * kKeys + j]);
#pragma GCC unroll 4
          for (int n = 0; n < kVectors; ++n) sums[r][n] = fma(v[n], weight, sums[r][n]);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kHeads; ++r) {
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; ++n) {
          float* const to = out + r * width + begin + n * kLanes;
          if (n == kVectors - 1 && rest < kLanes) {
            store(to, add(load(to, last), sums[r][n]), last);
          } else {
            store(to, add(load(to), sums[r][n]));
          }
        }
      }
    };
    if (vectors == 1) add_up.template operator()<1>();
    if (vectors == 2) add_up.template operator()<2>();
    if constexpr (kValueVectors > 2) {
      if (vectors == 3) add_up.template operator()<3>();
      if (vectors == 4) add_up.template operator()<4>();
    }
  }
}

/// Calls f.operator()<heads>(first) for up to four heads at a time.
template <class F>
inline void for_each_heads(int64_t group, F&& f) {
  int64_t r = 0;
  for (; r + 4 <= group; r += 4) f.template operator()<4>(r);
  if (group - r == 3) f.template operator()<3>(r);
  if (group - r == 2) f.template operator()<2>(r);
  if (group - r == 1) f.template operator()<1>(r);
}

/// Running softmax of one head over the block's keys [low, high); scores become probabilities, and
/// out is shrunk.
inline void one_query_softmax(const AttentionHead& head, int64_t low, int64_t high, int64_t count,
                              float* scores, float& highest, float& total, float* out) {
  const Vec hidden = set1(-__builtin_inff());
  const Vec cap = set1(head.softcap);
  const Vec inverse_cap = set1(head.softcap > 0 ? 1.0f / head.softcap : 0.0f);
  Vec most = set1(highest);
  for (int64_t j = 0; j < count; j += kLanes) {
    Vec s = load(scores + j);
    if (head.softcap > 0) s = mul(cap, tanh(mul(s, inverse_cap)));
    if (j < low || j + kLanes > high) {
      const Mask below = first(smaller(larger_of(low - j, 0), kLanes));
      const Mask seen = first(smaller(larger_of(high - j, 0), kLanes));
      s = select(below, hidden, select(seen, s, hidden));
    }
    store(scores + j, s);
    most = maximum(most, s);
  }
  const float before = highest;
  highest = largest(most);
  // While the query has seen no key, exponentials are relative to a finite number: e^−inf = 0.
  const float base = highest < -3.0e38f ? -3.0e38f : highest;
  for (int64_t j = 0; j < count; j += kLanes)
    store(scores + j, exp(sub(load(scores + j), set1(base))));
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += scores[j];
  alignas(64) float shrink[kLanes];
  store(shrink, exp(set1(before - base)));
  total = __builtin_fmaf(total, shrink[0], sum);
  if (shrink[0] == 1.0f) return;
  for (int64_t i = 0; i < head.value_width; ++i) out[i] *= shrink[0];
}

template <class T>
void one_query(const AttentionHead& head, float* scratch) {
  const RowBlock rows(head, 0);
  const int64_t group = head.group, width = head.width, value_width = head.value_width;
  float* q = scratch;                         // [group][D]
  float* out = q + group * width;             // [group][Dv]
  float* scores = out + group * value_width;  // [group][kKeys]
  float* line = scores + group * kKeys;       // one row of out
  float highest[kRows], total[kRows];
  for (int64_t r = 0; r < group; ++r) {
    widen(static_cast<const T*>(head.q) + r * head.q_head, head.scale, width, q + r * width);
    highest[r] = -__builtin_inff();
    total[r] = 0;
  }
  for (int64_t i = 0; i < group * value_width; ++i) out[i] = 0;
  for (int64_t begin = rows.begin() / kKeys * kKeys; begin < rows.end(); begin += kKeys) {
    const int64_t count = smaller(kKeys, rows.end() - begin);
    const int64_t next = smaller(rows.end(), begin + 2 * kKeys);
    const T* keys = static_cast<const T*>(head.k) + begin * head.k_token;
    const T* values = static_cast<const T*>(head.v) + begin * head.v_token;
    fetch_keys<T>(head.v, head.v_token, begin, begin + count, value_width);
    for_each_heads(group, [&]<int kHeads>(int64_t r) {
      one_query_scores<T, kHeads>(q + r * width, keys, head.k_token, count, width,
                                  scores + r * kKeys);
    });
    fetch_keys<T>(head.k, head.k_token, begin + count, next, width);
    const int64_t low = larger_of(rows.first_keys[0] - begin, 0);
    for (int64_t r = 0; r < group; ++r) {
      one_query_softmax(head, low, count, count, scores + r * kKeys, highest[r], total[r],
                        out + r * value_width);
    }
    for_each_heads(group, [&]<int kHeads>(int64_t r) {
      one_query_values<T, kHeads>(scores + r * kKeys, values, head.v_token, count, value_width,
                                  out + r * value_width);
    });
  }
  for (int64_t r = 0; r < group; ++r) {
    // Not "total > 0": a NaN must propagate.
    const float inverse = total[r] == 0 ? 0.0f : 1.0f / total[r];
    for (int64_t i = 0; i < value_width; ++i) line[i] = out[r * value_width + i] * inverse;
    narrow(line, value_width, static_cast<T*>(head.out) + r * head.out_head);
    head.lse[r * head.lse_head] = total[r] == 0 ? -__builtin_inff() : highest[r] + ::logf(total[r]);
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
