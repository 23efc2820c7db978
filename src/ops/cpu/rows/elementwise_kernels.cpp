// instruction sets: portable avx2 avx512 avx512_bf16
// Elementwise kernels over one run of neighbouring elements. Compiled per instruction set (see
// simd.h).

#include "ops/cpu/rows/elementwise_kernels.h"
#include "ops/cpu/rows/random_normal_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_philox.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

void add_run(const void* a, DType a_dtype, const void* b, DType b_dtype, void* out, DType out_dtype,
             int64_t n) {
  with_floats(a_dtype, a, [=](const auto* x) {
    with_floats(b_dtype, b, [=](const auto* y) {
      with_floats(out_dtype, out, [=](auto* to) {
        for_row(n, [&](int64_t i, auto... tail) {
          store(to + i, add(load(x + i, tail...), load(y + i, tail...)), tail...);
        });
      });
    });
  });
}

void multiply_run(const void* a, DType a_dtype, const void* b, DType b_dtype, void* out,
                  DType out_dtype, int64_t n) {
  with_floats(a_dtype, a, [=](const auto* x) {
    with_floats(b_dtype, b, [=](const auto* y) {
      with_floats(out_dtype, out, [=](auto* to) {
        for_row(n, [&](int64_t i, auto... tail) {
          store(to + i, mul(load(x + i, tail...), load(y + i, tail...)), tail...);
        });
      });
    });
  });
}

void copy_run(const void* from, DType from_dtype, void* to, DType to_dtype, bool accumulate,
              int64_t n) {
  with_floats(from_dtype, from, [=](const auto* x) {
    with_floats(to_dtype, to, [=](auto* y) {
      if (accumulate) {
        for_row(n, [&](int64_t i, auto... tail) {
          store(y + i, add(load(y + i, tail...), load(x + i, tail...)), tail...);
        });
      } else {
        for_row(n, [&](int64_t i, auto... tail) { store(y + i, load(x + i, tail...), tail...); });
      }
    });
  });
}

void scale_run(const void* x, DType x_dtype, float factor, void* out, DType out_dtype, int64_t n) {
  const Vec f = set1(factor);
  with_floats(x_dtype, x, [=](const auto* from) {
    with_floats(out_dtype, out, [=](auto* to) {
      for_row(n, [&](int64_t i, auto... tail) {
        store(to + i, mul(f, load(from + i, tail...)), tail...);
      });
    });
  });
}

void fill_run(float value, void* out, DType out_dtype, int64_t n) {
  const Vec v = set1(value);
  with_floats(out_dtype, out, [=](auto* to) {
    for_row(n, [&](int64_t i, auto... tail) { store(to + i, v, tail...); });
  });
}

// Number of factors drawn at once: a small buffer in the L1 cache.
constexpr int64_t kDrawn = 256;

/// Factors of the features [feature, feature + kDrawn) (`feature` divisible by 4).
void draw_factors(const DropoutRun& run, uint64_t feature, float* factors) {
  const Words threshold = words(static_cast<uint32_t>(run.threshold));
  const Vec factor = set1(run.factor);
  for (int64_t i = 0; i < kDrawn; i += 4 * kLanes) {
    Words w[4];
    philox_words(run.key, run.token, (feature + static_cast<uint64_t>(i)) / 4, w);
    for (int part = 0; part < 4; ++part)
      store(factors + i + part * kLanes, keep(w[part], threshold, factor));
  }
}

void dropout_run(const DropoutRun& run, const void* x, DType x_dtype, const void* residual,
                 DType residual_dtype, void* out, DType out_dtype, int64_t n) {
  float factors[kDrawn];
  with_floats(x_dtype, x, [&](const auto* from) {
    with_floats(residual_dtype, residual, [&](const auto* base) {
      with_floats(out_dtype, out, [&](auto* to) {
        const int64_t lead = static_cast<int64_t>(run.first_feature % 4);
        for (int64_t drawn = -lead; drawn < n; drawn += kDrawn) {
          draw_factors(run, run.first_feature + static_cast<uint64_t>(drawn), factors);
          const int64_t begin = drawn < 0 ? 0 : drawn;
          const int64_t end = drawn + kDrawn < n ? drawn + kDrawn : n;
          const float* f = factors + (begin - drawn);
          for_row(end - begin, [&](int64_t i, auto... tail) {
            Vec v = mul(load(from + begin + i, tail...), load(f + i, tail...));
            if (base != nullptr) v = add(load(base + begin + i, tail...), v);
            store(to + begin + i, v, tail...);
          });
        }
      });
    });
  });
}

}  // namespace

const ElementwiseKernels& elementwise_kernels() {
  static constexpr ElementwiseKernels kKernels{add_run,  multiply_run, copy_run,  scale_run,
                                               fill_run, dropout_run,  normal_run};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
