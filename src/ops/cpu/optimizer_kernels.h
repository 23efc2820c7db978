// Kernels of the reproducible sum and of AdamW, compiled per instruction set.

#include "ops/cpu/binned_sum.h"
#include "ops/cpu/optimizer_runs.h"
#include "ops/cpu/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

#if defined(__AVX512F__)
using Wide = __m512d;
inline Wide wide(double x) {
  return _mm512_set1_pd(x);
}
inline Wide load_wide(const double* p) {
  return _mm512_loadu_pd(p);
}
inline Wide load_wide(const float* p) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}
inline void store_wide(double* p, Wide v) {
  _mm512_storeu_pd(p, v);
}
inline Wide larger(Wide a, Wide b) {
  return _mm512_max_pd(a, b);
}
inline Wide magnitude(Wide a) {
  return _mm512_abs_pd(a);
}
#else
using Wide = __m256d;
inline Wide wide(double x) {
  return _mm256_set1_pd(x);
}
inline Wide load_wide(const double* p) {
  return _mm256_loadu_pd(p);
}
inline Wide load_wide(const float* p) {
  return _mm256_cvtps_pd(_mm_loadu_ps(p));
}
inline void store_wide(double* p, Wide v) {
  _mm256_storeu_pd(p, v);
}
inline Wide larger(Wide a, Wide b) {
  return _mm256_max_pd(a, b);
}
inline Wide magnitude(Wide a) {
  return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a);
}
#endif
constexpr int kWide = kLanes / 2;

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

bool largest_of(const SumRun& run, int64_t begin, int64_t end, double* result) {
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

void pieces_of(const SumRun& run, int64_t begin, int64_t end, double scale, int64_t bins[3]) {
  // Adding and subtracting 1.5 · 2^52 units rounds to a multiple of the unit.
  constexpr double kUnit = 1.0 / (int64_t{1} << kBinBits);
  const Wide factor = wide(scale);
  const Wide m0 = wide(0x1.8p52), m1 = wide(0x1.8p52 * kUnit), m2 = wide(0x1.8p52 * kUnit * kUnit);
  Wide s0 = wide(0), s1 = wide(0), s2 = wide(0);
  for_values(run, begin, end, [&](Wide v) {
    v = v * factor;
    const Wide p0 = (v + m0) - m0;
    v = v - p0;
    const Wide p1 = (v + m1) - m1;
    v = v - p1;
    const Wide p2 = (v + m2) - m2;
    s0 = s0 + p0;
    s1 = s1 + p1;
    s2 = s2 + p2;
  });
  const Wide sums[3] = {s0, s1 * wide(1 / kUnit), s2 * wide(1 / kUnit) * wide(1 / kUnit)};
  for (int b = 0; b < 3; ++b) {
    double lanes[kWide];
    store_wide(lanes, sums[b]);
    bins[b] = 0;
    for (double lane : lanes) bins[b] += static_cast<int64_t>(lane);
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
