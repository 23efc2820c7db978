// instruction sets: portable avx2 avx512 avx512_bf16
// Kernels of layer norm and RMS norm, compiled per instruction set.

#include "ops/cpu/rows/norm_kernels.h"
#include "ops/cpu/simd/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Weights of the dtype of activations or f32, a vector at a time.
template <class T>
struct Scale {
  const void* data;
  bool f32;
  Vec at(int64_t i) const {
    return f32 ? load(static_cast<const float*>(data) + i) : load(static_cast<const T*>(data) + i);
  }
  Vec at(int64_t i, Mask m) const {
    return f32 ? load(static_cast<const float*>(data) + i, m)
               : load(static_cast<const T*>(data) + i, m);
  }
};

/// Calls f(i, mask-or-nothing) for every vector of a row; the last, partial one gets a mask.
template <class Full, class Partial>
inline void for_vectors(int64_t width, Full&& full, Partial&& partial) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) full(i);
  if (i < width) partial(i, first(width - i));
}

template <class T>
float mean_of(const T* x, int64_t width) {
  Vec a = zero(), b = zero();
  int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    a = add(a, load(x + i));
    b = add(b, load(x + i + kLanes));
  }
  for (; i + kLanes <= width; i += kLanes) a = add(a, load(x + i));
  if (i < width) b = add(b, load(x + i, first(width - i)));
  return sum(add(a, b)) / static_cast<float>(width);
}

/// Mean of x².
template <class T>
float mean_square(const T* x, int64_t width) {
  Vec a = zero(), b = zero();
  int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    const Vec u = load(x + i), v = load(x + i + kLanes);
    a = fma(u, u, a);
    b = fma(v, v, b);
  }
  for (; i + kLanes <= width; i += kLanes) {
    const Vec u = load(x + i);
    a = fma(u, u, a);
  }
  if (i < width) {
    const Vec u = load(x + i, first(width - i));
    b = fma(u, u, b);
  }
  return sum(add(a, b)) / static_cast<float>(width);
}

/// Variance about the mean. It also corrects the mean by the remaining deviation: for rows whose
/// mean is large compared with their deviation, the first sum has lost digits of both (Chan, Golub
/// and LeVeque 1983, "Algorithms for computing the sample variance", equation 1.7).
template <class T>
float variance(const T* x, int64_t width, float& mean) {
  const Vec m = set1(mean);
  Vec square = zero(), left = zero();
  const auto take = [&](Vec u) {
    square = fma(u, u, square);
    left = add(left, u);
  };
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) take(sub(load(x + i), m));
  if (i < width) {
    const Mask rest = first(width - i);
    take(select(rest, sub(load(x + i, rest), m), zero()));
  }
  const float inverse = 1.0f / static_cast<float>(width), off = sum(left) * inverse;
  mean += off;
  return sum(square) * inverse - off * off;
}

template <class X, class Y>
void forward_rows(const NormRows& rows, int64_t begin, int64_t end) {
  const int64_t width = rows.width;
  const Scale<Y> weight{rows.weight, rows.weight_f32}, bias{rows.bias, rows.bias_f32};
  const Vec offset = set1(rows.weight_offset);
  for (int64_t r = begin; r < end; ++r) {
    const X* x = reinterpret_cast<const X*>(rows.x.row(r));
    Y* y = reinterpret_cast<Y*>(rows.y.row(r));
    float mean = rows.layer_norm ? mean_of(x, width) : 0.0f;
    const float spread = rows.layer_norm ? variance(x, width, mean) : mean_square(x, width);
    const float rstd = 1.0f / __builtin_sqrtf(spread + rows.eps);
    if (rows.mean != nullptr) rows.mean[r] = mean;
    if (rows.rstd != nullptr) rows.rstd[r] = rstd;
    const Vec m = set1(mean), s = set1(rstd);
    if (rows.bias != nullptr) {
      for_vectors(
          width,
          [&](int64_t i) {
            const Vec x_hat = mul(sub(load(x + i), m), s);
            store(y + i, fma(x_hat, add(weight.at(i), offset), bias.at(i)));
          },
          [&](int64_t i, Mask k) {
            const Vec x_hat = mul(sub(load(x + i, k), m), s);
            store(y + i, fma(x_hat, add(weight.at(i, k), offset), bias.at(i, k)), k);
          });
    } else {
      for_vectors(
          width,
          [&](int64_t i) {
            const Vec x_hat = mul(sub(load(x + i), m), s);
            store(y + i, mul(x_hat, add(weight.at(i), offset)));
          },
          [&](int64_t i, Mask k) {
            const Vec x_hat = mul(sub(load(x + i, k), m), s);
            store(y + i, mul(x_hat, add(weight.at(i, k), offset)), k);
          });
    }
  }
}

template <class X, class Y>
void backward_rows(const NormRows& rows, int64_t begin, int64_t end, float* d_weight,
                   float* d_bias) {
  const int64_t width = rows.width;
  const Scale<Y> weight{rows.weight, rows.weight_f32};
  const Vec offset = set1(rows.weight_offset);
  for (int64_t i = 0; i < width; ++i) d_weight[i] = 0;
  if (d_bias != nullptr) {
    for (int64_t i = 0; i < width; ++i) d_bias[i] = 0;
  }
  for (int64_t r = begin; r < end; ++r) {
    const X* x = reinterpret_cast<const X*>(rows.x.row(r));
    const Y* dy = reinterpret_cast<const Y*>(rows.dy.row(r));
    const X* more =
        rows.dx_add.data != nullptr ? reinterpret_cast<const X*>(rows.dx_add.row(r)) : nullptr;
    X* dx = reinterpret_cast<X*>(rows.dx.row(r));
    const Vec m = set1(rows.mean != nullptr ? rows.mean[r] : 0.0f), s = set1(rows.rstd[r]);
    // g = dy · w: its mean, and its projection on x̂.
    Vec total = zero(), along = zero();
    const auto gather = [&](Vec x_i, Vec dy_i, Vec w_i) {
      const Vec g = mul(dy_i, add(w_i, offset));
      total = add(total, g);
      along = fma(g, mul(sub(x_i, m), s), along);
    };
    for_vectors(
        width, [&](int64_t i) { gather(load(x + i), load(dy + i), weight.at(i)); },
        [&](int64_t i, Mask k) {  // lanes beyond the row have dy = 0
          gather(load(x + i, k), load(dy + i, k), weight.at(i, k));
        });
    const float inverse = 1.0f / static_cast<float>(width);
    const Vec mean_g = set1(rows.layer_norm ? sum(total) * inverse : 0.0f);
    const Vec projection = set1(sum(along) * inverse);
    const auto gradient = [&](Vec x_hat, Vec dy_i, Vec w_i) {
      const Vec g = mul(dy_i, add(w_i, offset));
      return mul(s, fnma(x_hat, projection, sub(g, mean_g)));
    };
    for_vectors(
        width,
        [&](int64_t i) {
          const Vec dy_i = load(dy + i), x_hat = mul(sub(load(x + i), m), s);
          store(d_weight + i, fma(dy_i, x_hat, load(d_weight + i)));
          if (d_bias != nullptr) store(d_bias + i, add(load(d_bias + i), dy_i));
          const Vec g = gradient(x_hat, dy_i, weight.at(i));
          store(dx + i, more != nullptr ? add(load(more + i), g) : g);
        },
        [&](int64_t i, Mask k) {
          const Vec dy_i = load(dy + i, k), x_hat = mul(sub(load(x + i, k), m), s);
          store(d_weight + i, fma(dy_i, x_hat, load(d_weight + i, k)), k);
          if (d_bias != nullptr) store(d_bias + i, add(load(d_bias + i, k), dy_i), k);
          const Vec g = gradient(x_hat, dy_i, weight.at(i, k));
          store(dx + i, more != nullptr ? add(load(more + i, k), g) : g, k);
        });
  }
}

/// Calls f with a value of the dtype of x, dx_add and dx, and one of that of y and dy.
template <class F>
void with_formats(DType x, DType y, F&& f) {
  if (x == DType::bf16) return f(bfloat16{}, bfloat16{});
  if (x == DType::f16) return f(float16{}, float16{});
  if (y == DType::bf16) return f(float{}, bfloat16{});
  if (y == DType::f16) return f(float{}, float16{});
  f(float{}, float{});
}

void forward(const NormRows& rows, int64_t begin, int64_t end) {
  with_formats(rows.x.dtype, rows.y.dtype,
               [&](auto x, auto y) { forward_rows<decltype(x), decltype(y)>(rows, begin, end); });
}

void backward(const NormRows& rows, int64_t begin, int64_t end, float* d_weight, float* d_bias) {
  with_formats(rows.x.dtype, rows.dy.dtype, [&](auto x, auto dy) {
    backward_rows<decltype(x), decltype(dy)>(rows, begin, end, d_weight, d_bias);
  });
}

void add_partials(const float* partial, int64_t blocks, int64_t stride, float* out, int64_t begin,
                  int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) {
    if (i + kLanes <= end) {
      Vec total = zero();
      for (int64_t b = 0; b < blocks; ++b) total = add(total, load(partial + b * stride + i));
      store(out + i, add(load(out + i), total));
    } else {
      const Mask k = first(end - i);
      Vec total = zero();
      for (int64_t b = 0; b < blocks; ++b) total = add(total, load(partial + b * stride + i, k));
      store(out + i, add(load(out + i, k), total), k);
    }
  }
}

}  // namespace

const NormKernels norm_kernels{forward, backward, add_partials};

}  // namespace viaduct::cpu::VIADUCT_ISA
