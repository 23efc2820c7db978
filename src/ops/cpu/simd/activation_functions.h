#pragma once
// The activation functions and their derivatives, for a vector of points. Functions with
// exponentials are templates over the exponential's accuracy: `Accurate` to a few units in the last
// place of FP32, or `Short` for results rounded to 16 bits, with half as many operations. Internal
// linkage (see simd.h).

#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_exp2.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// A function's value and derivative at a point.
struct Point {
  Vec value, derivative;
};

inline Vec bounded(Vec x, float limit) {  // NaN stays NaN
  return minimum(set1(limit), maximum(set1(-limit), x));
}

struct Accurate {
  /// Φ(−|z|), the lower tail of the normal distribution, |z| ≤ 14.5, with small relative error; and
  /// e^(−z²/2). Φ(−|z|) = e^(−z²/2) · erfcx(|z| / √2) / 2, where erfcx(a) · (a + 3) is a polynomial
  /// in (a − 3) / (a + 3), fitted at Chebyshev points for a in [0, 10.5] with a relative error of
  /// 4e-9; beyond that, the exponential is 0 in FP32.
  static Vec normal_tail(Vec z, Vec& gauss) {
    // z²/2 in two parts, because its rounding error would become an error of the exponential.
    const Vec half = mul(z, set1(0.5f)), square = mul(z, half);
    const Vec rest = fma(z, half, sub(zero(), square));
    const Vec e = exp(sub(zero(), square));
    gauss = fnma(e, rest, e);
    const Vec a = mul(absolute(z), set1(0.70710678118654752f));
    const Vec inverse = div(set1(1.0f), add(a, set1(3.0f)));
    const Vec t = mul(sub(a, set1(3.0f)), inverse);
    Vec p = set1(-3.271540308052857e-4f);
    p = fma(p, t, set1(-4.8512821855403656e-4f));
    p = fma(p, t, set1(3.082150386224321e-3f));
    p = fma(p, t, set1(-1.2244027215814715e-3f));
    p = fma(p, t, set1(-2.6840365519195414e-2f));
    p = fma(p, t, set1(1.1952847557833088e-1f));
    p = fma(p, t, set1(-3.1046594162355456e-1f));
    p = fma(p, t, set1(5.9022835047579960e-1f));
    p = fma(p, t, set1(-8.8339448950473850e-1f));
    p = fma(p, t, set1(1.0740069071150942f));
    return mul(mul(gauss, set1(0.5f)), mul(p, inverse));
  }
  /// 1 / (1 + e^(−scale · x)), |scale · x| ≤ 170.
  static Vec logistic(Vec x, float scale) { return sigmoid(mul(x, set1(scale))); }
};

/// The same with exponentials of base 2 whose argument is rounded once: relative errors of 1e-7
/// near 0, of about 1e-6 where the exponential is small.
struct Short {
  /// As `Accurate::normal_tail`; erfcx(|z| / √2) / 2 · (|z| + 3 √2) is a polynomial in
  /// (|z| − 3 √2) / (|z| + 3 √2) with a relative error of 1.3e-7 for |z| ≤ 14.5.
  static Vec normal_tail(Vec z, Vec& gauss) {
    gauss = exp2_short(mul(mul(z, z), set1(-0.72134752044448170f)));
    const Vec a = absolute(z), center = set1(4.2426406871192851f);
    const Vec inverse = div(set1(1.0f), add(a, center));
    const Vec t = mul(sub(a, center), inverse);
    Vec p = set1(2.0732926204800606e-3f);
    p = fma(p, t, set1(-1.1517677921801805e-3f));
    p = fma(p, t, set1(-1.8978836014866829e-2f));
    p = fma(p, t, set1(8.4597103297710419e-2f));
    p = fma(p, t, set1(-2.1952973306179047e-1f));
    p = fma(p, t, set1(4.1734746098518372e-1f));
    p = fma(p, t, set1(-6.2465429306030273e-1f));
    p = fma(p, t, set1(7.5943768024444580e-1f));
    return mul(gauss, mul(p, inverse));
  }
  static Vec logistic(Vec x, float scale) {
    const Vec t = mul(x, set1(-1.44269504088896341f * scale));
    return div(set1(1.0f), add(set1(1.0f), exp2_short(t)));
  }
};

/// x · Φ(x), Φ the distribution of the standard normal, and its density φ.
template <class Math>
struct Gelu {
  static Vec distribution(Vec x, Vec z, Vec& gauss) {
    const Vec below = Math::normal_tail(z, gauss);
    return select(less(x, zero()), below, sub(set1(1.0f), below));
  }
  static Vec value(Vec x) {
    Vec gauss;
    return mul(x, distribution(x, bounded(x, 14.5f), gauss));
  }
  static Point point(Vec x) {
    Vec gauss;
    const Vec z = bounded(x, 14.5f);
    const Vec p = distribution(x, z, gauss);
    const Vec density = mul(gauss, set1(0.39894228040143268f));
    return {mul(x, p), fma(z, density, p)};
  }
};

/// ½ x (1 + tanh u) = x · sigmoid(2u), u = √(2/π) (x + 0.044715 x³).
template <class Math>
struct GeluTanh {
  static constexpr float kScale = 1.5957691216057308f;  // 2 √(2/π)
  static constexpr float kCubic = 0.044715f;
  static constexpr float kLimit = 10.5f;  // beyond, the sigmoid is 0 or 1 in FP32
  static Vec half_tanh(Vec z, Vec square) {
    return Math::logistic(mul(z, fma(square, set1(kCubic), set1(1.0f))), kScale);
  }
  static Vec value(Vec x) {
    const Vec z = bounded(x, kLimit);
    return mul(x, half_tanh(z, mul(z, z)));
  }
  static Point point(Vec x) {
    const Vec z = bounded(x, kLimit), square = mul(z, z);
    const Vec s = half_tanh(z, square);
    const Vec slope = fma(square, set1(3 * kCubic * kScale), set1(kScale));
    const Vec curve = mul(mul(s, sub(set1(1.0f), s)), slope);
    return {mul(x, s), fma(z, curve, s)};
  }
};

/// x · sigmoid(k x).
template <class Math, bool kQuick>
struct Swish {
  static constexpr float kScale = kQuick ? 1.702f : 1.0f;
  static constexpr float kLimit = 88.8f / kScale;  // beyond, the sigmoid is 0 or 1 in FP32
  static Vec value(Vec x) { return mul(x, Math::logistic(bounded(x, kLimit), kScale)); }
  static Point point(Vec x) {
    const Vec z = bounded(x, kLimit);
    const Vec s = Math::logistic(z, kScale);
    const Vec curve = mul(mul(s, sub(set1(1.0f), s)), set1(kScale));
    return {mul(x, s), fma(z, curve, s)};
  }
};

struct Relu {
  static Vec value(Vec x) { return maximum(zero(), x); }
  static Point point(Vec x) {
    return {value(x), select(less(zero(), x), set1(1.0f), mul(zero(), x))};
  }
};

struct SquaredRelu {
  static Vec value(Vec x) {
    const Vec a = maximum(zero(), x);
    return mul(a, a);
  }
  static Point point(Vec x) {
    const Vec a = maximum(zero(), x);
    return {mul(a, a), add(a, a)};
  }
};

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
