// Packing into tiles and products of them, against plain loops in FP64.

#include "ops/cpu/tiles/tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "ops/cpu/amx_problem.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/tiles/tile_check.h"
#include "support/emulated_tiles.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using cpu::TileKernels;
using cpu::TileSource;

struct NamedTiles {
  const char* name;
  bool runs;
  const TileKernels& (*kernels)();
};

class Tiles : public testing::TestWithParam<NamedTiles> {
 protected:
  void SetUp() override {
    if (!GetParam().runs) GTEST_SKIP() << "this machine cannot run it";
  }
  const TileKernels& tiles() const { return GetParam().kernels(); }
};

/// The AMX loops on registers in memory (any machine), then this machine's tiles.
std::vector<NamedTiles> all_tiles() {
  return {{"emulated_amx", true, test::emulated_amx_kernels},
          {"avx512_bf16", cpu_supports(CpuIsa::avx512_bf16), cpu::avx512_bf16::tile_kernels},
          {"amx", cpu_supports(CpuIsa::amx), cpu::amx::tile_kernels}};
}

INSTANTIATE_TEST_SUITE_P(Isa, Tiles, testing::ValuesIn(all_tiles()),
                         [](const auto& info) { return std::string(info.param.name); });

/// A matrix in memory seen as [width][depth], in either order, with NaN between its rows.
struct Matrix {
  Tensor tensor;
  TileSource source;
  std::vector<double> values;

  Matrix(DType dtype, bool contracted_first, int64_t width, int64_t depth, uint64_t seed)
      : tensor(test::random_strided(
            dtype, contracted_first ? Shape{depth, width} : Shape{width, depth}, 3, seed)),
        source{tensor.raw(), dtype, tensor.stride(0), contracted_first, width, depth},
        values(test::values(tensor)) {}
  /// The values in the tiles: FP32 sources are rounded.
  float at(int64_t i, int64_t k) const {
    const int64_t index = source.contracted_first ? k * source.width + i : i * source.depth + k;
    return static_cast<float>(bfloat16(static_cast<float>(values[static_cast<size_t>(index)])));
  }
};

int64_t strip_of(int64_t depth) {
  return cpu::tile_steps(depth) * cpu::kTileElements + 64;  // a gap that packing must not touch
}

std::vector<bfloat16> packed(const TileKernels& tiles, const Matrix& m, bool is_b) {
  const int64_t strip = strip_of(m.source.depth);
  std::vector<bfloat16> to(static_cast<size_t>(cpu::tile_strips(m.source.width) * strip),
                           bfloat16(7.0f));
  (is_b ? tiles.pack_b : tiles.pack_a)(m.source, to.data(), strip);
  return to;
}

TEST_P(Tiles, PackingPutsEveryElementInItsPlaceAndZerosBeyond) {
  for (const bool is_b : {false, true}) {
    for (const bool contracted_first : {false, true}) {
      for (const DType dtype : {DType::bf16, DType::f32}) {
        for (const auto& [width, depth] : {std::pair<int64_t, int64_t>{1, 1},
                                           {16, 32},
                                           {15, 31},
                                           {17, 33},
                                           {32, 64},
                                           {33, 70},
                                           {50, 1},
                                           {1, 97}}) {
          const Matrix m(dtype, contracted_first, width, depth, 5);
          const std::vector<bfloat16> found = packed(tiles(), m, is_b);
          SCOPED_TRACE(testing::Message()
                       << (is_b ? "b " : "a ") << dtype_name(dtype) << " " << width << " x "
                       << depth << (contracted_first ? " contracted first" : ""));
          for (int64_t i = 0; i < cpu::tile_strips(width) * 16; ++i) {
            for (int64_t k = 0; k < cpu::tile_steps(depth) * 32; ++k) {
              const int64_t inside =
                  is_b ? k % 32 / 2 * 32 + i % 16 * 2 + k % 2 : i % 16 * 32 + k % 32;
              const bfloat16 value = found[static_cast<size_t>(
                  i / 16 * strip_of(depth) + k / 32 * cpu::kTileElements + inside)];
              ASSERT_EQ(static_cast<float>(value), i < width && k < depth ? m.at(i, k) : 0.0f)
                  << i << ", " << k;
            }
            for (int64_t gap = 1; gap <= 64; ++gap) {
              ASSERT_EQ(static_cast<float>(
                            found[static_cast<size_t>((i / 16 + 1) * strip_of(depth) - gap)]),
                        7.0f);
            }
          }
        }
      }
    }
  }
}

TEST_P(Tiles, RoundsToNearestEvenAndDenormalsToZero) {
  const float values[] = {1.00390625f, 1.01171875f, -1.005f, 0x1p-130f,
                          std::numeric_limits<float>::infinity()};
  const float expected[] = {1.0f, 1.015625f, -1.0078125f, 0.0f,
                            std::numeric_limits<float>::infinity()};
  std::vector<bfloat16> tile(cpu::kTileElements);
  tiles().pack_a({values, DType::f32, 5, false, 1, 5}, tile.data(), cpu::kTileElements);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(static_cast<float>(tile[i]), expected[i]) << i;
}

TEST_P(Tiles, ProductsMatchPlainLoops) {
  for (const int64_t rows : {1, 2, 4, 5, 8, 9, 16, 17, 40}) {
    for (const int64_t columns : {1, 16, 17, 32, 50}) {
      for (const int64_t depth : {1, 31, 64, 100}) {
        for (const bool accumulate : {false, true}) {
          const Matrix a(DType::bf16, false, rows, depth, 1),
              b(DType::bf16, true, columns, depth, 2);
          const auto a_tiles = packed(tiles(), a, false), b_tiles = packed(tiles(), b, true);
          const int64_t c_rows = cpu::tile_strips(rows) * 16;
          const int64_t c_stride = cpu::tile_strips(columns) * 16 + 5;
          std::vector<float> c(static_cast<size_t>(c_rows * c_stride), 0.5f);
          tiles().begin();
          tiles().product({rows, columns, cpu::tile_steps(depth), a_tiles.data(), strip_of(depth),
                           b_tiles.data(), strip_of(depth), c.data(), c_stride, accumulate});
          tiles().end();
          SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth
                                          << (accumulate ? " +=" : " ="));
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
              double sum = accumulate ? 0.5 : 0, magnitude = 0.5;
              for (int64_t k = 0; k < depth; ++k) {
                sum += double{a.at(i, k)} * b.at(j, k);
                magnitude += std::abs(double{a.at(i, k)} * b.at(j, k));
              }
              ASSERT_NEAR(c[static_cast<size_t>(i * c_stride + j)], sum,
                          4 * 0x1p-24 * std::sqrt(static_cast<double>(depth)) * magnitude)
                  << i << ", " << j;
            }
            for (int64_t j = c_stride - 5; j < c_stride; ++j)
              ASSERT_EQ(c[static_cast<size_t>(i * c_stride + j)], 0.5f);
          }
        }
      }
    }
  }
}

TEST_P(Tiles, PassTheSelfCheck) {
  EXPECT_TRUE(cpu::tiles_compute(tiles()));
}

TEST(TileCheck, FindsProductsThatAreLeftOut) {
  EXPECT_FALSE(cpu::tiles_compute(test::broken_amx_kernels()));
}

TEST(TileCheck, AMachineThatFailsItSaysSo) {
  const auto broken = [] { return cpu::tiles_compute(test::broken_amx_kernels()); };
  const auto sound = [] { return cpu::tiles_compute(test::emulated_amx_kernels()); };
  const auto untouched = []() -> bool { throw std::logic_error("no registers to touch"); };
  EXPECT_EQ(cpu::amx_problem(false, false, untouched), "");
  EXPECT_EQ(cpu::amx_problem(true, true, sound), "");
  EXPECT_THAT(cpu::amx_problem(true, true, broken), testing::HasSubstr("WRONG"));
  EXPECT_THAT(cpu::amx_problem(true, false, untouched), testing::HasSubstr("does not grant"));
}

TEST(TileCheck, EmulatedRegistersNeedAConfiguration) {
  EXPECT_THROW(test::emulated_amx_kernels().end(), std::logic_error);
  float c[256];
  bfloat16 tile[512];
  EXPECT_THROW(test::emulated_amx_kernels().product({16, 16, 1, tile, 0, tile, 0, c, 16}),
               std::logic_error);
}

// A sum over a long contracted dim is a sum of blocks: each product starts at zero and is added to
// C once.
TEST_P(Tiles, AnAccumulatingProductAddsItsOwnSum) {
  const Matrix a(DType::bf16, false, 20, 320, 1), b(DType::bf16, false, 40, 320, 2);
  const auto a_tiles = packed(tiles(), a, false), b_tiles = packed(tiles(), b, true);
  std::vector<float> expected(32 * 48, 0.5f), sums(32 * 48, 0.5f), block(32 * 48);
  cpu::TileProduct product{
      20, 40, 0, a_tiles.data(), strip_of(320), b_tiles.data(), strip_of(320), nullptr, 48};
  const cpu::TileScope scope(tiles());
  for (const int64_t steps : {3, 1, 6}) {
    product.steps = steps;
    product.c = block.data(), product.accumulate = false;
    tiles().product(product);
    for (size_t i = 0; i < sums.size(); ++i) expected[i] += block[i];
    product.c = sums.data(), product.accumulate = true;
    tiles().product(product);
    product.a += steps * cpu::kTileElements;
    product.b += steps * cpu::kTileElements;
  }
  for (size_t i = 0; i < 20; ++i) {
    for (size_t j = 0; j < 40; ++j)
      ASSERT_EQ(sums[i * 48 + j], expected[i * 48 + j]) << i << " " << j;
  }
}

TEST(CpuIsas, TheFastestComesLast) {
  const auto all = [](CpuIsa) { return true; };
  const auto without_tiles = [](CpuIsa isa) { return isa != CpuIsa::amx; };
  const auto old = [](CpuIsa isa) { return isa < CpuIsa::avx512_bf16; };
  EXPECT_EQ(cpu::by_speed({}, all).back(), CpuIsa::amx);
  EXPECT_EQ(cpu::by_speed({.slow_bf16_vectors = true}, all).back(), CpuIsa::amx);
  EXPECT_EQ(cpu::by_speed({}, without_tiles).back(), CpuIsa::avx512_bf16);
  EXPECT_EQ(cpu::by_speed({.slow_bf16_vectors = true}, without_tiles),
            (std::vector{CpuIsa::portable, CpuIsa::avx2, CpuIsa::avx512_bf16, CpuIsa::avx512}));
  EXPECT_EQ(cpu::by_speed({}, old).back(), CpuIsa::avx512);
  EXPECT_EQ(best_cpu_isa(), cpu_isas_by_speed().back());
  EXPECT_TRUE(cpu_supports(best_cpu_isa()));
}

}  // namespace
}  // namespace viaduct
