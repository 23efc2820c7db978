// quantize_tiles.cu has the bits of the kernel for any rows and groups (quantize.cu).

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "cuda_host/device.h"
#include "ops/cuda/kernels/quantize.h"

namespace viaduct::cuda {
namespace {

struct Codes {
  std::vector<uint8_t> values, powers;
  std::vector<uint32_t> scales;  // bits
  bool operator==(const Codes&) const = default;
};

struct alignas(16) Sixteen {
  uint8_t bytes[16];
};

/// The codes of a matrix [rows, columns] of 16-bit or FP32 elements. Rows of codes that are not a
/// multiple of 8 apart are not taken by quantize_tiles.
Codes codes_of(const void* matrix, Format format, int64_t rows, int64_t columns, int64_t group_rows,
               int64_t group_columns, bool e5m2, bool powers, bool by_tiles) {
  const int64_t stride = by_tiles ? columns : columns + 1, count = rows * columns;
  std::vector<Sixteen> memory(static_cast<size_t>(rows * stride / 16 + 1));
  Codes codes;
  codes.powers.resize(static_cast<size_t>(count)), codes.scales.resize(static_cast<size_t>(count));
  QuantizedRows args{{const_cast<void*>(matrix), format, 1, 1, {columns}},
                     one_matrix(rows),
                     columns,
                     memory[0].bytes,
                     stride,
                     e5m2,
                     powers ? nullptr : reinterpret_cast<float*>(codes.scales.data()),
                     powers ? codes.powers.data() : nullptr,
                     nullptr};
  args.group_rows = group_rows, args.group_columns = group_columns;
  args.scale_row_stride = (columns + group_columns - 1) / group_columns,
  args.scale_column_stride = 1;
  EXPECT_EQ(quantize_tiles(args, nullptr), by_tiles);
  if (!by_tiles) quantize(args, nullptr);
  for (int64_t r = 0; r < rows; ++r)
    codes.values.insert(codes.values.end(), memory[0].bytes + r * stride,
                        memory[0].bytes + r * stride + columns);
  // A product and a quotient of two NaN have the sign of one of them on the host, none on a GPU.
  for (uint8_t& code : codes.values)
    if ((code & 0x7f) == 0x7f) code = 0x7f;
  return codes;
}

TEST(QuantizeTiles, HaveTheBitsOfTheKernelForAnyRows) {
  constexpr int64_t kRows = 150, kColumns = 168;
  std::mt19937 random(7);
  // Groups of all magnitudes, those of an exact quotient, zero, the smallest, and not finite.
  std::vector<Sixteen> memory(kRows * kColumns / 4);
  auto* const x = reinterpret_cast<float*>(memory.data());
  const float special[] = {0,         -0.0f,       448,
                           57344,     0x1.cp-118f, 0x1.c00002p8f,
                           0x1p-149f, 0x1p-126f,   std::numeric_limits<float>::max(),
                           INFINITY,  NAN};
  for (int64_t r = 0; r < kRows; ++r) {
    const int power = static_cast<int>(random() % 270) - 145;
    for (int64_t c = 0; c < kColumns; ++c) {
      const bool plain = random() % 4000 != 0;
      x[r * kColumns + c] =
          plain ? std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), power)
                : special[random() % std::size(special)];
    }
  }
  for (const auto& [rows, columns] : {std::pair{1, 128}, {1, 32}, {128, 1}, {32, 1}, {128, 128}}) {
    for (const bool e5m2 : {false, true}) {
      for (const Format format : {Format::f32, Format::bf16, Format::f16}) {
        // The bytes of FP32 numbers are 16-bit ones as well, of twice as many columns.
        const bool powers = format == Format::bf16;
        ::cuda_host::emulator().set_seed(1);
        EXPECT_TRUE(codes_of(x, format, kRows, kColumns, rows, columns, e5m2, powers, true) ==
                    codes_of(x, format, kRows, kColumns, rows, columns, e5m2, powers, false))
            << rows << " x " << columns << (e5m2 ? " e5m2" : " e4m3");
      }
    }
  }
}

/// Every exponent with the mantissas at which a scale changes: a group of 32 has one such number,
/// so that the scale is that of the quotient.
TEST(QuantizeTiles, HaveTheScaleOfTheQuotientForMagnitudesAroundEachStep) {
  const uint32_t mantissas[] = {0, 1, 0x5fffff, 0x600000, 0x600001, 0x600002, 0x7fffff};
  constexpr int64_t kColumns = 32, kRows = 256 * std::size(mantissas);
  std::vector<Sixteen> memory(kRows * kColumns / 4);
  auto* const bits = reinterpret_cast<uint32_t*>(memory.data());
  for (int64_t r = 0; r < kRows; ++r)
    bits[r * kColumns + r % kColumns] =
        static_cast<uint32_t>(r / std::size(mantissas)) << 23 | mantissas[r % std::size(mantissas)];
  for (const bool e5m2 : {false, true}) {
    for (const bool powers : {false, true}) {
      EXPECT_TRUE(codes_of(bits, Format::f32, kRows, kColumns, 1, 32, e5m2, powers, true) ==
                  codes_of(bits, Format::f32, kRows, kColumns, 1, 32, e5m2, powers, false))
          << (e5m2 ? " e5m2" : " e4m3");
    }
  }
}

}  // namespace
}  // namespace viaduct::cuda
