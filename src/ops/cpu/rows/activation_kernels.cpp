// instruction sets: avx2 avx512 avx512_bf16
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
        store(d_in + gate_to_up + i, mul(d, p.value), tail...);
      } else {
        store(d_in + i, mul(d, p.derivative), tail...);
      }
    });
  }
}

template <class F, class T>
void run_rows(bool backward, const ActivationRows& rows, int64_t begin, int64_t end) {
  if (backward) {
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
