// instruction sets: portable avx2 avx512 avx512_bf16
// Kernels of the activation functions, compiled per instruction set.

#include "ops/cpu/rows/activation_kernels.h"
#include "ops/cpu/simd/activation_functions.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

template <class F, class T, bool kGated>
void forward_rows(const ActivationRows& rows, int64_t begin, int64_t end) {
  const int64_t width = rows.width;
  for (int64_t r = begin; r < end; ++r) {
    const T* in = reinterpret_cast<const T*>(rows.in.row(r));
    const T* up = in + rows.up;
    T* out = reinterpret_cast<T*>(rows.out.row(r));
    for_row(width, [&](int64_t i, auto... tail) {
      const Vec f = F::value(load(in + i, tail...));
      store(out + i, kGated ? mul(f, load(up + i, tail...)) : f, tail...);
    });
  }
}

template <class F, class T, bool kGated>
void backward_rows(const ActivationRows& rows, int64_t begin, int64_t end) {
  const int64_t width = rows.width, gate_to_up = rows.up;
  for (int64_t r = begin; r < end; ++r) {
    const T* in = reinterpret_cast<const T*>(rows.in.row(r));
    const T* d_out = reinterpret_cast<const T*>(rows.out.row(r));
    T* d_in = reinterpret_cast<T*>(rows.d_in.row(r));
    for_row(width, [&](int64_t i, auto... tail) {
      const Point p = F::point(load(in + i, tail...));
      const Vec d = load(d_out + i, tail...);
      if constexpr (kGated) {
        const Vec up = load(in + gate_to_up + i, tail...);
        store(d_in + i, mul(mul(d, up), p.derivative), tail...);
        store(d_in + rows.d_up + i, mul(d, p.value), tail...);
      } else {
        store(d_in + i, mul(d, p.derivative), tail...);
      }
    });
  }
}

/// A part of a row as FP32: what enters the product, and the slopes of the clamps.
struct ShapedPart {
  static constexpr int64_t kMost = 256;
  float gate[kMost], up[kMost], gate_slope[kMost], up_slope[kMost];
  int64_t gate_begin, up_begin, step;  // where they are in the row

  template <class T>
  void read(const GateShape& shape, const T* in, int64_t first, int64_t count, int64_t to_up) {
    step = shape.interleaved ? 2 : 1;
    gate_begin = first * step;
    up_begin = shape.interleaved ? gate_begin + 1 : first + to_up;
    const bool clamps = shape.clamp > 0;
    const auto clamp = static_cast<float>(shape.clamp), offset = static_cast<float>(shape.offset);
    for (int64_t i = 0; i < count; ++i) {
      float g = static_cast<float>(in[gate_begin + i * step]);
      float u = static_cast<float>(in[up_begin + i * step]);
      gate_slope[i] = clamps && g > clamp ? 0.0f : 1.0f;
      up_slope[i] = clamps && (u > clamp || u < -clamp) ? 0.0f : 1.0f;
      if (clamps) {
        g = g > clamp ? clamp : g;
        u = u > clamp ? clamp : u < -clamp ? -clamp : u;
      }
      gate[i] = g, up[i] = u + offset;
    }
  }
};

template <class F, class T>
void shaped_forward_rows(const ActivationRows& rows, int64_t begin, int64_t end) {
  ShapedPart part;
  float result[ShapedPart::kMost];
  for (int64_t r = begin; r < end; ++r) {
    T* out = reinterpret_cast<T*>(rows.out.row(r));
    for (int64_t first = 0; first < rows.width; first += ShapedPart::kMost) {
      const int64_t left = rows.width - first;
      const int64_t count = left < ShapedPart::kMost ? left : ShapedPart::kMost;
      part.read(rows.shape, reinterpret_cast<const T*>(rows.in.row(r)), first, count, rows.up);
      for_row(count, [&](int64_t i, auto... tail) {
        const Vec f = F::value(load(part.gate + i, tail...));
        store(result + i, mul(f, load(part.up + i, tail...)), tail...);
      });
      for (int64_t i = 0; i < count; ++i) out[first + i] = static_cast<T>(result[i]);
    }
  }
}

template <class F, class T>
void shaped_backward_rows(const ActivationRows& rows, int64_t begin, int64_t end) {
  ShapedPart part;
  float value[ShapedPart::kMost], slope[ShapedPart::kMost];
  for (int64_t r = begin; r < end; ++r) {
    const T* d_out = reinterpret_cast<const T*>(rows.out.row(r));
    T* d_in = reinterpret_cast<T*>(rows.d_in.row(r));
    for (int64_t first = 0; first < rows.width; first += ShapedPart::kMost) {
      const int64_t left = rows.width - first;
      const int64_t count = left < ShapedPart::kMost ? left : ShapedPart::kMost;
      part.read(rows.shape, reinterpret_cast<const T*>(rows.in.row(r)), first, count, rows.up);
      for_row(count, [&](int64_t i, auto... tail) {
        const Point p = F::point(load(part.gate + i, tail...));
        store(value + i, p.value, tail...);
        store(slope + i, p.derivative, tail...);
      });
      for (int64_t i = 0; i < count; ++i) {
        const float d = static_cast<float>(d_out[first + i]);
        d_in[part.gate_begin + i * part.step] =
            static_cast<T>(d * part.up[i] * part.gate_slope[i] * slope[i]);
        d_in[part.up_begin + rows.d_up - rows.up + i * part.step] =
            static_cast<T>(d * part.up_slope[i] * value[i]);
      }
    }
  }
}

template <class F, class T>
void run_rows(bool backward, const ActivationRows& rows, int64_t begin, int64_t end) {
  if (rows.shape.any()) {
    backward ? shaped_backward_rows<F, T>(rows, begin, end)
             : shaped_forward_rows<F, T>(rows, begin, end);
  } else if (backward) {
    rows.gated ? backward_rows<F, T, true>(rows, begin, end)
               : backward_rows<F, T, false>(rows, begin, end);
  } else {
    rows.gated ? forward_rows<F, T, true>(rows, begin, end)
               : forward_rows<F, T, false>(rows, begin, end);
  }
}

/// `Wide` for f32, `Narrow` for formats of 16 bits.
template <class Wide, class Narrow>
void run_of(bool backward, const ActivationRows& rows, int64_t begin, int64_t end) {
  switch (rows.in.dtype) {
    case DType::bf16:
      return run_rows<Narrow, bfloat16>(backward, rows, begin, end);
    case DType::f16:
      return run_rows<Narrow, float16>(backward, rows, begin, end);
    default:
      return run_rows<Wide, float>(backward, rows, begin, end);
  }
}

void run(bool backward, const ActivationRows& rows, int64_t begin, int64_t end) {
  switch (rows.kind) {
    case ActivationKind::gelu:
      return run_of<Gelu<Accurate>, Gelu<Short>>(backward, rows, begin, end);
    case ActivationKind::gelu_tanh:
      return run_of<GeluTanh<Accurate>, GeluTanh<Short>>(backward, rows, begin, end);
    case ActivationKind::quick_gelu:
      return run_of<Swish<Accurate, true>, Swish<Short, true>>(backward, rows, begin, end);
    case ActivationKind::silu:
      return run_of<Swish<Accurate, false>, Swish<Short, false>>(backward, rows, begin, end);
    case ActivationKind::relu:
      return run_of<Relu, Relu>(backward, rows, begin, end);
    case ActivationKind::squared_relu:
      return run_of<SquaredRelu, SquaredRelu>(backward, rows, begin, end);
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
