// instruction sets: portable avx2 avx512
// Kernels of Adafactor, compiled per instruction set. Sums are of integers in FP64, so every order
// gives the same bits.

#include "ops/cpu/optimizer/adafactor_kernels.h"
#include "ops/cpu/simd/simd_float8.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

void largest(const AdafactorBlock& block, int32_t* of_rows, int32_t* of_columns) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* g = block.gradient + r * block.stride;
    int32_t most = of_rows[r];
    for (int64_t c = 0; c < block.columns; ++c) {
      const auto bits = static_cast<int32_t>(bits_of_float(g[c]) & 0x7fffffffu);
      most = bits > most ? bits : most;
      of_columns[c] = bits > of_columns[c] ? bits : of_columns[c];
    }
    of_rows[r] = most;
  }
}

/// The nearest whole number, for 0 ≤ x < 2^51: the sum has no bits below 1.
inline double rounded(double x) {
  constexpr double kShift = 0x1.8p52;
  return (x + kShift) - kShift;
}

void sums(const AdafactorBlock& block, const double* row_units, const double* column_units,
          double* of_rows, double* of_columns) {
  constexpr int64_t kLane = 8;  // sums of a row beside each other: adding does not wait
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* g = block.gradient + r * block.stride;
    const double unit = row_units[r];
    double lanes[kLane] = {};
    int64_t c = 0;
    for (; c + kLane <= block.columns; c += kLane) {
      for (int64_t l = 0; l < kLane; ++l) {
        const double wide = g[c + l], square = wide * wide;
        lanes[l] += rounded(square * unit);
        of_columns[c + l] += rounded(square * column_units[c + l]);
      }
    }
    for (; c < block.columns; ++c) {
      const double wide = g[c], square = wide * wide;
      lanes[0] += rounded(square * unit);
      of_columns[c] += rounded(square * column_units[c]);
    }
    for (const double lane : lanes) of_rows[r] += lane;
  }
}

void second(const AdafactorSecond& of) {
  const Vec clip = set1(of.clip), share = set1(of.share), epsilon = set1(of.epsilon);
  for_row(of.count, [&](int64_t i, auto... mask) {
    const Vec g = mul(load(of.gradient + i, mask...), clip), v = load(of.second + i, mask...);
    store(of.second + i, fma(share, sub(fma(g, g, epsilon), v), v), mask...);
  });
}

template <class... Mask>
Vec direction_at(const AdafactorRow& row, int64_t i, Mask... mask) {
  const Vec g = mul(load(row.gradient + i, mask...), set1(row.clip));
  if (row.column_factors == nullptr) return div(g, sqrt(load(row.second + i, mask...)));
  return mul(mul(g, set1(row.row_factor)), load(row.column_factors + i, mask...));
}

void direction(const AdafactorRow& row, float* out) {
  for_row(row.count,
          [&](int64_t i, auto... mask) { store(out + i, direction_at(row, i, mask...), mask...); });
}

template <class W>
void update_row(const AdafactorRow& row, const AdafactorUpdateRun& run) {
  const Vec decay = set1(run.decay), step = set1(run.step);
  W* weight = static_cast<W*>(run.weight);
  for_row(row.count, [&](int64_t i, auto... mask) {
    Vec p = load(run.master + i, mask...);
    p = fnma(step, direction_at(row, i, mask...), fnma(decay, p, p));
    store(run.master + i, p, mask...);
    if (weight != nullptr) store(weight + i, p, mask...);
  });
}

void update(const AdafactorRow& row, const AdafactorUpdateRun& run) {
  switch (run.weight_dtype) {
    case DType::bf16:
      return update_row<bfloat16>(row, run);
    case DType::f16:
      return update_row<float16>(row, run);
    default:
      return update_row<float>(row, run);
  }
}

}  // namespace

const AdafactorKernels adafactor_kernels{largest, sums, second, direction, update};

}  // namespace viaduct::cpu::VIADUCT_ISA
