// instruction sets: portable avx2 avx512 avx512_bf16
// Kernels of the reproducible sum and of AdamW, compiled per instruction set.

#include "ops/cpu/optimizer/optimizer_kernels.h"
#include "ops/cpu/optimizer/binned_sum.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_double.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

#if defined(VIADUCT_PORTABLE)
/// Bits of |v|, which order as the values do; those of infinities and NaNs are the largest.
using Bits = int32_t __attribute__((vector_size(32)));
inline Bits magnitude_bits(Vec v) {
  return bits_as<Bits>(absolute(v));
}
inline Bits larger_bits(Bits a, Bits b) {
  return a > b ? a : b;
}
inline void store_bits(int32_t* p, Bits v) {
  store_as(p, v);
}
#elif defined(__AVX512F__)
/// Bits of |v|, which order as the values do; those of infinities and NaNs are the largest.
using Bits = __m512i;  // of 32 bits
inline Bits magnitude_bits(Vec v) {
  return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
}
inline Bits larger_bits(Bits a, Bits b) {
  return _mm512_max_epi32(a, b);
}
inline void store_bits(int32_t* p, Bits v) {
  _mm512_storeu_si512(p, v);
}
#else
/// Bits of |v|, which order as the values do; those of infinities and NaNs are the largest.
using Bits = __m256i;  // of 32 bits
inline Bits magnitude_bits(Vec v) {
  return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
}
inline Bits larger_bits(Bits a, Bits b) {
  return _mm256_max_epi32(a, b);
}
inline void store_bits(int32_t* p, Bits v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
#endif

/// Calls f(vector of values) over [begin, end); the last vector is filled up with zeros.
template <class T, bool kWeighted, bool kSquared, class F>
inline void for_values(const SumRun& run, int64_t begin, int64_t end, F&& f) {
  const T* x = static_cast<const T*>(run.x);
  const auto value = [](Wide v, Wide w) {
    if constexpr (kWeighted) v = v * w;
    if constexpr (kSquared) v = v * v;
    return v;
  };
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    // Of the next block, whose largest value is computed after this loop.
    __builtin_prefetch(x + i + kSumBlock);
    f(value(load_wide(x + i), kWeighted ? load_wide(run.weight + i) : wide(1)));
    f(value(load_wide(x + i + kWide), kWeighted ? load_wide(run.weight + i + kWide) : wide(1)));
  }
  for (; i + kWide <= end; i += kWide) {
    f(value(load_wide(x + i), kWeighted ? load_wide(run.weight + i) : wide(1)));
  }
  if (i < end) {
    T rest[kWide] = {};
    float weights[kWide] = {};
    for (int64_t j = i; j < end; ++j) {
      rest[j - i] = x[j];
      if constexpr (kWeighted) weights[j - i] = run.weight[j];
    }
    f(value(load_wide(rest), kWeighted ? load_wide(weights) : wide(1)));
  }
}

template <class F>
inline void for_values(const SumRun& run, int64_t begin, int64_t end, F&& f) {
  const int form = (run.f64 ? 4 : 0) + (run.weight != nullptr ? 2 : 0) + (run.squared ? 1 : 0);
  switch (form) {
    case 0:
      return for_values<float, false, false>(run, begin, end, f);
    case 1:
      return for_values<float, false, true>(run, begin, end, f);
    case 2:
      return for_values<float, true, false>(run, begin, end, f);
    case 3:
      return for_values<float, true, true>(run, begin, end, f);
    case 4:
      return for_values<double, false, false>(run, begin, end, f);
    case 5:
      return for_values<double, false, true>(run, begin, end, f);
    case 6:
      return for_values<double, true, false>(run, begin, end, f);
    default:
      return for_values<double, true, true>(run, begin, end, f);
  }
}

/// The largest magnitude among floats as they lie in memory; its square, squared.
bool largest_float(const float* x, int64_t n, bool squared, double* result) {
  Bits a = magnitude_bits(zero()), b = a;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a = larger_bits(a, magnitude_bits(load(x + i)));
    b = larger_bits(b, magnitude_bits(load(x + i + kLanes)));
  }
  for (; i + kLanes <= n; i += kLanes) a = larger_bits(a, magnitude_bits(load(x + i)));
  if (i < n) b = larger_bits(b, magnitude_bits(load(x + i, first(n - i))));
  int32_t lanes[kLanes], most = 0;
  store_bits(lanes, larger_bits(a, b));
  for (int32_t lane : lanes) most = lane > most ? lane : most;
  const auto value = static_cast<double>(__builtin_bit_cast(float, most));
  *result = squared ? value * value : value;
  return most < 0x7f800000;
}

bool largest_of(const SumRun& run, int64_t begin, int64_t end, double* result) {
  if (!run.f64 && run.weight == nullptr) {
    return largest_float(static_cast<const float*>(run.x) + begin, end - begin, run.squared,
                         result);
  }
  Wide most = wide(0), zeros = wide(0);  // x · 0 is NaN unless x is finite
  for_values(run, begin, end, [&](Wide v) {
    most = larger(most, magnitude(v));
    zeros = zeros + v * wide(0);
  });
  double a[kWide], z[kWide];
  store_wide(a, most);
  store_wide(z, zeros);
  bool finite = true;
  *result = 0;
  for (int i = 0; i < kWide; ++i) {
    finite = finite && z[i] == 0;
    if (a[i] > *result) *result = a[i];
  }
  return finite;
}

// Adding 1.5 · 2^52 units rounds to a multiple of the unit, and the bits of the sum, taken as an
// integer, are those of the constant plus that multiple. So the sums of pieces are integer sums of
// bits (modulo 2^64), which leaves the adders of FP64 to the rounding; where they would still be
// busiest, the multipliers add (a · 1 + b).
void pieces_of(const SumRun& run, int64_t begin, int64_t end, double scale, int64_t bins[3]) {
  constexpr double kUnit = 1.0 / (int64_t{1} << kBinBits);
  constexpr double kMagic[3] = {0x1.8p52, 0x1.8p52 * kUnit, 0x1.8p52 * kUnit * kUnit};
  const Wide factor = wide(scale), one = wide(1), minus_one = wide(-1);
  const Wide m0 = wide(kMagic[0]), m1 = wide(kMagic[1]), m2 = wide(kMagic[2]);
  const Wide back0 = wide(-kMagic[0]), back1 = wide(-kMagic[1]);
  WideBits s0 = wide_bits(0), s1 = wide_bits(0), s2 = wide_bits(0);
  for_values(run, begin, end, [&](Wide v) {
    v = v * factor;
    const Wide p0 = v + m0;
    v = v - fma_wide(p0, one, back0);
    const Wide p1 = v + m1;
    v = fma_wide(fma_wide(p1, one, back1), minus_one, v);
    s0 = add_bits(s0, bits_of(p0));
    s1 = add_bits(s1, bits_of(p1));
    s2 = add_bits(s2, bits_of(v + m2));
  });
  const auto lanes_added = static_cast<uint64_t>((end - begin + kWide - 1) / kWide * kWide);
  const WideBits sums[3] = {s0, s1, s2};
  for (int b = 0; b < 3; ++b) {
    int64_t lanes[kWide];
    store_bits(lanes, sums[b]);
    uint64_t total = 0;
    for (int64_t lane : lanes) total += static_cast<uint64_t>(lane);
    bins[b] = static_cast<int64_t>(total - lanes_added * __builtin_bit_cast(uint64_t, kMagic[b]));
  }
}

struct AdamWFactors {
  Vec clip, decay, beta1, rest1, beta2, rest2, step, correction2, epsilon;
  explicit AdamWFactors(const AdamWRun& run)
      : clip(set1(run.clip)),
        decay(set1(run.decay)),
        beta1(set1(run.beta1)),
        rest1(set1(run.one_minus_beta1)),
        beta2(set1(run.beta2)),
        rest2(set1(run.one_minus_beta2)),
        step(set1(run.step)),
        correction2(set1(run.correction2)),
        epsilon(set1(run.epsilon)) {}

  void update(Vec& p, Vec g, Vec& m, Vec& v) const {
    g = mul(g, clip);
    m = fma(beta1, m, mul(rest1, g));
    v = fma(beta2, v, mul(rest2, mul(g, g)));
    const Vec size = add(sqrt(mul(v, correction2)), epsilon);
    p = fnma(step, div(m, size), fnma(decay, p, p));
  }
};

template <class W>
void adamw_run(const AdamWRun& run, int64_t begin, int64_t end) {
  const AdamWFactors factors(run);
  W* weight = static_cast<W*>(run.weight);
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    Vec p = load(run.master + i), m = load(run.first + i), v = load(run.second + i);
    factors.update(p, load(run.gradient + i), m, v);
    store(run.master + i, p);
    store(run.first + i, m);
    store(run.second + i, v);
    if (weight != nullptr) store(weight + i, p);
  }
  if (i < end) {
    const Mask k = first(end - i);
    Vec p = load(run.master + i, k), m = load(run.first + i, k), v = load(run.second + i, k);
    factors.update(p, load(run.gradient + i, k), m, v);
    store(run.master + i, p, k);
    store(run.first + i, m, k);
    store(run.second + i, v, k);
    if (weight != nullptr) store(weight + i, p, k);
  }
}

void adamw(const AdamWRun& run, int64_t begin, int64_t end) {
  switch (run.weight_dtype) {
    case DType::bf16:
      return adamw_run<bfloat16>(run, begin, end);
    case DType::f16:
      return adamw_run<float16>(run, begin, end);
    default:
      return adamw_run<float>(run, begin, end);
  }
}

}  // namespace

const OptimizerKernels optimizer_kernels{largest_of, pieces_of, adamw};

}  // namespace viaduct::cpu::VIADUCT_ISA
