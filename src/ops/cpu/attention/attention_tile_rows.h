#pragma once
// Part of the attention kernels on tiles: queries that see a key, exponentials, random words.

#include "ops/cpu/attention/attention_rules.h"
#include "ops/cpu/attention/attention_tile_blocks.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_philox.h"
#include "ops/cpu/tiles/tile_units.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;
constexpr float kNothing = -__builtin_inff();

/// Key j is seen by queries [first_query, end_query).
inline int64_t first_query(const AttentionHead& head, int64_t j) {
  return head.causal ? larger_of(0, j - head.diagonal) : 0;
}
inline int64_t end_query(const AttentionHead& head, int64_t j) {
  return head.window > 0 ? smaller(head.queries, j - head.diagonal + head.window) : head.queries;
}

/// Prefetches `width` elements of the rows [begin, end) into the L2 cache: the rows of a head are
/// far apart in memory, where the hardware does not follow them.
template <class T>
inline void fetch_rows(const T* from, int64_t token, int64_t begin, int64_t end, int64_t width) {
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(T));
  for (int64_t j = begin; j < end; ++j) {
    for (int64_t i = 0; i < width; i += kLine)
      _mm_prefetch(reinterpret_cast<const char*>(from + j * token + i), _MM_HINT_T1);
  }
}

/// Lanes l with low ≤ l < high.
inline Mask lanes_between(int64_t low, int64_t high) {
  const auto below = [](int64_t n) { return n <= 0 ? 0u : n >= kLanes ? 0xffffu : (1u << n) - 1u; };
  return static_cast<Mask>(below(high) & ~below(low));
}

/// 2^x: the integer part through the exponent, the fraction in [0, 1) by the polynomial of degree 5
/// with the smallest relative error, 7.5e-8. 0 for −∞ and on underflow, NaN for NaN.
inline Vec exp2(Vec x) {
  const Vec f = _mm512_reduce_ps(x, 0x09);  // x − floor(x)
  Vec p = set1(0.0018775766948238015f);
  p = fma(p, f, set1(0.00898933969438076f));
  p = fma(p, f, set1(0.05582631751894951f));
  p = fma(p, f, set1(0.24015361070632935f));
  p = fma(p, f, set1(0.6931530833244324f));
  p = fma(p, f, set1(0.9999999403953552f));
  return _mm512_scalef_ps(p, x);
}

/// 32 numbers rounded to BF16, in order.
inline __m512i narrow_both(Vec low, Vec high) {
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/// 0 or 1 / (1 − p), one counter a lane: tokens (low, high words), key positions, one head.
inline Vec draw_factors(const AttentionHead& head, const Words& low, const Words& high,
                        const Words& position) {
  Words c0 = low, c1 = high, c2 = position;
  Words c3 = words(static_cast<uint32_t>(head.first_head));
  philox_rounds(head.dropout_key, c0, c1, c2, c3);
  return keep(c0, words(static_cast<uint32_t>(head.dropout_threshold)), set1(head.dropout_factor));
}

/// Position of key j in its whole document.
inline uint32_t position_of(const AttentionHead& head, int64_t j) {
  return static_cast<uint32_t>(head.key_position != nullptr ? head.key_position[j] : j);
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
