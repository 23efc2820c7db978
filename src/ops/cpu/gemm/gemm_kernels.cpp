// instruction sets: portable avx2 avx512 avx512_bf16
// From the FP32 sums of a block to memory: bias and rounding.
// Compiled per instruction set (see simd.h).

#include "ops/cpu/gemm/gemm_kernels.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

template <class Bias>
Vec biased(Vec v, const Bias* bias, int64_t c) {
  return bias != nullptr ? add(v, load(bias + c)) : v;
}
template <class Bias>
Vec biased(Vec v, const Bias* bias, int64_t c, Mask m) {
  return bias != nullptr ? add(v, load(bias + c, m)) : v;
}

template <class T, class Bias>
void store_rows(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns,
                const Bias* bias, bool accumulate, T* to, int64_t row_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = sums + r * sums_stride;
    T* out = to + r * row_stride;
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      Vec v = biased(load(in + c), bias, c);
      if (accumulate) v = add(load(out + c), v);
      store(out + c, v);
    }
    if (c < columns) {
      const Mask tail = first(columns - c);
      Vec v = biased(load(in + c, tail), bias, c, tail);
      if (accumulate) v = add(load(out + c, tail), v);
      store(out + c, v, tail);
    }
  }
}

#if defined(__AVX512BF16__)
/// BF16, whole cache lines past the caches.
template <class Bias>
void stream_sums(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns,
                 const Bias* bias, bfloat16* to, int64_t row_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = sums + r * sums_stride;
    bfloat16* out = to + r * row_stride;
    for (int64_t c = 0; c < columns; c += 2 * kLanes) {
      const Vec low = biased(load(in + c), bias, c),
                high = biased(load(in + c + kLanes), bias, c + kLanes);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(out + c),
                          (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
  }
}
#endif

template <class Bias>
void store_biased(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns,
                  const Bias* bias, bool accumulate, void* to, DType dtype, int64_t row_stride,
                  [[maybe_unused]] bool streamed) {
#if defined(__AVX512BF16__)
  if (streamed && !accumulate && dtype == DType::bf16 && columns % 32 == 0 &&
      row_stride % 32 == 0 && reinterpret_cast<uintptr_t>(to) % 64 == 0) {
    return stream_sums(sums, sums_stride, rows, columns, bias, static_cast<bfloat16*>(to),
                       row_stride);
  }
#endif
  if (dtype == DType::bf16) {
    store_rows(sums, sums_stride, rows, columns, bias, accumulate, static_cast<bfloat16*>(to),
               row_stride);
  } else if (dtype == DType::f16) {
    store_rows(sums, sums_stride, rows, columns, bias, accumulate, static_cast<float16*>(to),
               row_stride);
  } else {
    store_rows(sums, sums_stride, rows, columns, bias, accumulate, static_cast<float*>(to),
               row_stride);
  }
}

void store_block(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns,
                 const void* bias, DType bias_dtype, bool accumulate, void* to, DType dtype,
                 int64_t row_stride, bool streamed) {
  if (bias_dtype == DType::bf16) {
    store_biased(sums, sums_stride, rows, columns, static_cast<const bfloat16*>(bias), accumulate,
                 to, dtype, row_stride, streamed);
  } else if (bias_dtype == DType::f16) {
    store_biased(sums, sums_stride, rows, columns, static_cast<const float16*>(bias), accumulate,
                 to, dtype, row_stride, streamed);
  } else {
    store_biased(sums, sums_stride, rows, columns, static_cast<const float*>(bias), accumulate, to,
                 dtype, row_stride, streamed);
  }
}

void stream_rows(const std::byte* from, int64_t from_stride, int64_t rows, int64_t bytes,
                 std::byte* to, int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    int64_t b = 0;
#if defined(__AVX512F__)
    if (reinterpret_cast<uintptr_t>(to) % 64 == 0) {
      for (; b + 64 <= bytes; b += 64)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + b), _mm512_loadu_si512(from + b));
    }
#endif
    __builtin_memcpy(to + b, from + b, static_cast<size_t>(bytes - b));
  }
}

void end_stream() {
#if defined(__AVX512F__)
  // A fence of the language need not order stores that bypass the caches.
  _mm_sfence();
#endif
}

void scale_block(float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float factor) {
  const Vec by = set1(factor);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = sums + r * sums_stride;
    for_row(columns, [&](int64_t c, auto... mask) {
      store(row + c, mul(load(row + c, mask...), by), mask...);
    });
  }
}

}  // namespace

const GemmKernels& gemm_kernels() {
  static constexpr GemmKernels kKernels{store_block, stream_rows, end_stream, scale_block};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
