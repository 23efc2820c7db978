#pragma once
// Normal random numbers (the definition is in ops/elementwise.h), a vector of counters at a time.
// Logarithm and angle are computed here, to a few units in the last place of FP64, with operations
// that every instruction set rounds alike: a number has the same bits on all of them. Compiled per
// instruction set, internal linkage (see simd.h).

#include "ops/cpu/simd/simd_double.h"
#include "ops/cpu/simd/simd_philox.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Σ coefficients[i] z^i, i < n.
template <int n>
inline Wide polynomial(const double (&coefficients)[n], Wide z) {
  Wide sum = wide(coefficients[n - 1]);
  for (int i = n - 2; i >= 0; --i) sum = fma_wide(sum, z, wide(coefficients[i]));
  return sum;
}

/// ln u for u in (0, 1), normal: u = m · 2^k with m in [√½, √2), and ln m = 2 artanh s with
/// s = (m − 1) / (m + 1), by its series: z = s² ≤ 0.0295, the first term left out is below 1e-18.
inline Wide logarithm(Wide u) {
  constexpr double kSeries[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  const WideBits one = wide_bits(uint64_t{1024} << 52);
  const WideBits k_biased =
      shift_right<52>(bits_of(u) - bits_of(wide(0.70710678118654752)) + one);  // k + 1024
  const Wide m = wide_of(bits_of(u) - shift_left<52>(k_biased) + one);
  const Wide k = wide_of(k_biased | bits_of(wide(0x1p52))) - wide(0x1p52 + 1024);
  const Wide s = (m - wide(1)) / (m + wide(1)), z = s * s;
  const Wide tail = s * z * polynomial(kSeries, z);
  // ln 2 in two parts, of which the first times k is exact.
  const Wide low = fma_wide(k, wide(0x1.a39ef35793c76p-33), tail);
  return fma_wide(k, wide(0x1.62e42feep-1), s + s + low);
}

/// cos 2πu and sin 2πu for u in (0, 1): the angle from the nearest quarter turn, at most π/4, by
/// Taylor series with a remainder below 1e-17.
inline void turn(Wide u, Wide& cosine, Wide& sine) {
  constexpr double kSine[] = {
      -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  constexpr double kCosine[] = {
      -1.0 / 2,       1.0 / 24,        -1.0 / 720,         1.0 / 40320,
      -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
  const Wide quarters = u * wide(4), shifted = quarters + wide(0x1.8p52);
  const WideBits quarter = bits_of(shifted);  // the lowest bits are its number
  const Wide angle = (quarters - (shifted - wide(0x1.8p52))) * wide(1.5707963267948966);
  const Wide z = angle * angle;
  const Wide s = fma_wide(angle * z, polynomial(kSine, z), angle);
  const Wide c = fma_wide(z, polynomial(kCosine, z), wide(1));
  const WideBits odd = shift_left<63>(quarter), sign = wide_bits(uint64_t{1} << 63);
  const WideBits cosine_sign = shift_left<62>(add_bits(quarter, wide_bits(1))) & sign;
  const WideBits sine_sign = shift_left<62>(quarter) & sign;
  cosine = wide_of(bits_of(select_by_sign(odd, s, c)) ^ cosine_sign);
  sine = wide_of(bits_of(select_by_sign(odd, c, s)) ^ sine_sign);
}

/// Uniform in (0, 1) in steps of 2^-52 from two words.
inline Wide uniform52(WideBits high, WideBits low) {
  const WideBits bits = shift_right<12>(join_halves(low, high));
  const Wide whole = wide_of(bits | bits_of(wide(0x1p52))) - wide(0x1p52);
  return (whole + wide(0.5)) * wide(0x1p-52);
}

/// The two numbers of each counter.
inline void normal_pairs(uint64_t key, WideBits counter, Wide& first, Wide& second) {
  WideBits c0 = counter, c1 = shift_right<32>(counter), c2 = wide_bits(0), c3 = c2;
  philox_lanes(key, c0, c1, c2, c3);
  Wide cosine, sine;
  turn(uniform52(c2, c3), cosine, sine);
  const Wide radius = sqrt_wide(wide(-2) * logarithm(uniform52(c0, c1)));
  first = radius * cosine;
  second = radius * sine;
}

/// Neighbouring elements: whole vectors of pairs, the first and the last one cut.
void normal_neighbours(uint64_t key, uint64_t element, int64_t n, double* out) {
  const WideBits order = counter_order();
  int64_t at = -static_cast<int64_t>(element % 2);  // of the first element of the pair, in out
  for (uint64_t counter = element / 2; at < n; counter += kWide, at += 2 * kWide) {
    Wide first, second;
    normal_pairs(key, wide_bits(counter) + order, first, second);
    double values[2 * kWide];
    const bool whole = at >= 0 && at + 2 * kWide <= n;
    double* to = whole ? out + at : values;
    store_wide(to, pairs_of_even(first, second));
    store_wide(to + kWide, pairs_of_odd(first, second));
    if (whole) continue;
    for (int64_t i = at < 0 ? 0 : at; i < n && i < at + 2 * kWide; ++i) out[i] = values[i - at];
  }
}

/// out [n]: the elements `element`, `element` + `step`, … of the logical tensor.
void normal_run(uint64_t key, uint64_t element, uint64_t step, int64_t n, double* out) {
  if (step == 1) return normal_neighbours(key, element, n, out);
  for (int64_t i = 0; i < n; i += kWide) {
    uint64_t elements[kWide];
    for (int lane = 0; lane < kWide; ++lane, element += step) elements[lane] = element;
    const WideBits index = load_bits(elements);
    Wide first, second;
    normal_pairs(key, shift_right<1>(index), first, second);
    double values[kWide];
    const bool whole = i + kWide <= n;
    store_wide(whole ? out + i : values, select_by_sign(shift_left<63>(index), second, first));
    if (whole) continue;
    for (int64_t j = i; j < n; ++j) out[j] = values[j - i];
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
