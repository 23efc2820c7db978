// Kernels of the activation functions, compiled per instruction set.

#include "ops/cpu/activation_rows.h"
#include "ops/cpu/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// A function and its derivative at a point.
struct Point {
  Vec value, derivative;
};

inline Vec bounded(Vec x, float limit) {  // NaN stays NaN
  return minimum(set1(limit), maximum(set1(-limit), x));
}

/// x · Φ(x), Φ the distribution of the standard normal, and its density φ. Both tails keep their
/// relative accuracy: Φ(−|x|) = e^(−x²/2) · erfcx(|x| / √2) / 2, where erfcx(a) · (a + 3) is a
/// polynomial in (a − 3) / (a + 3), fitted at Chebyshev points for a in [0, 10.5] with a relative
/// error of 4e-9; beyond, the exponential is 0 in FP32.
struct Gelu {
  static Vec tail(Vec x, Vec& gauss) {
    const Vec z = bounded(x, 14.5f);
    // x²/2 in two parts, since its rounding error would be an error of the exponential.
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
  static Vec distribution(Vec x, Vec& gauss) {
    const Vec below = tail(x, gauss);
    return select(less(x, zero()), below, sub(set1(1.0f), below));
  }
  static Vec value(Vec x) {
    Vec gauss;
    return mul(x, distribution(x, gauss));
  }
  static Point point(Vec x) {
    Vec gauss;
    const Vec p = distribution(x, gauss);
    const Vec density = mul(gauss, set1(0.39894228040143268f));
    return {mul(x, p), fma(bounded(x, 14.5f), density, p)};
  }
};

/// ½ x (1 + tanh u) = x · sigmoid(2u), u = √(2/π) (x + 0.044715 x³).
struct GeluTanh {
  static constexpr float kScale = 1.5957691216057308f;  // 2 √(2/π)
  static constexpr float kCubic = 0.044715f;
  static Vec half_tanh(Vec z) {
    const Vec inner = fma(mul(mul(z, z), z), set1(kCubic), z);
    return sigmoid(mul(inner, set1(kScale)));
  }
  static Vec value(Vec x) { return mul(x, half_tanh(bounded(x, 100.0f))); }
  static Point point(Vec x) {
    const Vec z = bounded(x, 100.0f);
    const Vec s = half_tanh(z);
    const Vec slope = mul(set1(kScale), fma(mul(z, z), set1(3 * kCubic), set1(1.0f)));
    const Vec curve = mul(mul(s, sub(set1(1.0f), s)), slope);
    return {mul(x, s), fma(z, curve, s)};
  }
};

/// x · sigmoid(k x).
template <bool kQuick>
struct Swish {
  static constexpr float kScale = kQuick ? 1.702f : 1.0f;
  static Vec value(Vec x) { return mul(x, sigmoid(mul(x, set1(kScale)))); }
  static Point point(Vec x) {
    const Vec z = bounded(x, 200.0f);
    const Vec s = sigmoid(mul(x, set1(kScale)));
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

template <class F, class T>
void forward_rows(const ActivationRows& rows, int64_t begin, int64_t end) {
  const int64_t width = rows.width;
  for (int64_t r = begin; r < end; ++r) {
    const T* in = reinterpret_cast<const T*>(rows.in.row(r));
    T* out = reinterpret_cast<T*>(rows.out.row(r));
    const T* up = in + width;
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      const Vec f = F::value(load(in + i));
      store(out + i, rows.gated ? mul(f, load(up + i)) : f);
    }
    if (i < width) {
      const Mask k = first(width - i);
      const Vec f = F::value(load(in + i, k));
      store(out + i, rows.gated ? mul(f, load(up + i, k)) : f, k);
    }
  }
}

template <class F, class T>
void backward_rows(const ActivationRows& rows, int64_t begin, int64_t end) {
  const int64_t width = rows.width;
  for (int64_t r = begin; r < end; ++r) {
    const T* in = reinterpret_cast<const T*>(rows.in.row(r));
    const T* d_out = reinterpret_cast<const T*>(rows.out.row(r));
    T* d_in = reinterpret_cast<T*>(rows.d_in.row(r));
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      const Point p = F::point(load(in + i));
      const Vec d = load(d_out + i);
      if (rows.gated) {
        store(d_in + i, mul(mul(d, load(in + width + i)), p.derivative));
        store(d_in + width + i, mul(d, p.value));
      } else {
        store(d_in + i, mul(d, p.derivative));
      }
    }
    if (i < width) {
      const Mask k = first(width - i);
      const Point p = F::point(load(in + i, k));
      const Vec d = load(d_out + i, k);
      if (rows.gated) {
        store(d_in + i, mul(mul(d, load(in + width + i, k)), p.derivative), k);
        store(d_in + width + i, mul(d, p.value), k);
      } else {
        store(d_in + i, mul(d, p.derivative), k);
      }
    }
  }
}

template <class F>
void run_of(bool backward, const ActivationRows& rows, int64_t begin, int64_t end) {
  switch (rows.in.dtype) {
    case DType::bf16:
      return backward ? backward_rows<F, bfloat16>(rows, begin, end)
                      : forward_rows<F, bfloat16>(rows, begin, end);
    case DType::f16:
      return backward ? backward_rows<F, float16>(rows, begin, end)
                      : forward_rows<F, float16>(rows, begin, end);
    default:
      return backward ? backward_rows<F, float>(rows, begin, end)
                      : forward_rows<F, float>(rows, begin, end);
  }
}

void run(bool backward, const ActivationRows& rows, int64_t begin, int64_t end) {
  switch (rows.kind) {
    case ActivationKind::gelu:
      return run_of<Gelu>(backward, rows, begin, end);
    case ActivationKind::gelu_tanh:
      return run_of<GeluTanh>(backward, rows, begin, end);
    case ActivationKind::quick_gelu:
      return run_of<Swish<true>>(backward, rows, begin, end);
    case ActivationKind::silu:
      return run_of<Swish<false>>(backward, rows, begin, end);
    case ActivationKind::relu:
      return run_of<Relu>(backward, rows, begin, end);
    case ActivationKind::squared_relu:
      return run_of<SquaredRelu>(backward, rows, begin, end);
  }
}

void forward(const ActivationRows& rows, int64_t begin, int64_t end) {
  run(false, rows, begin, end);
}

void backward(const ActivationRows& rows, int64_t begin, int64_t end) {
  run(true, rows, begin, end);
}

}  // namespace

const ActivationKernels activation_kernels{forward, backward};

}  // namespace viaduct::cpu::VIADUCT_ISA
