// Choice and launch of the NVFP4 codes of a part of a weight on the cpu. Tasks take whole bands of
// 16 rows, so that a square belongs to one task.

#include <algorithm>
#include <bit>
#include <limits>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm/nvfp4_kernels.h"
#include "ops/cpu/rows/runs.h"
#include "ops/cpu/vector_choice.h"
#include "ops/square_codes.h"
#include "tensor/nvfp4.h"

namespace viaduct::cpu {
namespace {

static_assert(kNvfp4Rows == kNvfp4Group && kNvfp4Columns % kNvfp4Group == 0);

/// A rectangle of the matrix in one band, of at most kNvfp4Columns columns, that begins with a
/// square or lies in one.
struct SquareBlock {
  int64_t row, rows, column, columns;
};

/// Rows of the matrix that begin inside the part and end inside it are whole.
struct PartRows {
  template <class Args>
  explicit PartRows(const Args& args)
      : begin(args.begin), end(args.begin + args.part.dim(0)), columns(args.columns) {}

  int64_t first() const { return begin / columns; }
  int64_t last() const { return (end - 1) / columns; }
  int64_t column_begin(int64_t row) const { return row == first() ? begin - row * columns : 0; }
  int64_t column_end(int64_t row) const { return row == last() ? end - row * columns : columns; }
  bool whole(int64_t row) const { return column_begin(row) == 0 && column_end(row) == columns; }

  int64_t begin, end, columns;
};

template <class Body>
void for_square_blocks_of_rows(const PartRows& part, int64_t row, int64_t rows, const Body& body) {
  const int64_t end = part.column_end(row);
  for (int64_t column = part.column_begin(row); column < end;) {
    const int64_t inside = column % kNvfp4Group;
    const int64_t next = column + (inside != 0 ? kNvfp4Group - inside : kNvfp4Columns);
    body(SquareBlock{row, rows, column, std::min(next, end) - column});
    column = next;
  }
}

/// Calls body(block) on the pool for blocks that cover the part.
template <class Args, class Body>
void for_square_blocks(ThreadPool& pool, const Args& args, const Body& body) {
  const PartRows part(args);
  if (part.end == part.begin) return;
  const int64_t first_band = part.first() / kNvfp4Rows, last_band = part.last() / kNvfp4Rows;
  const int64_t each = std::max<int64_t>(1, kRunElements / (kNvfp4Rows * part.columns));
  pool.run((last_band - first_band + each) / each, [&](int64_t task, int) {
    const int64_t begin = first_band + task * each;
    for (int64_t band = begin; band < std::min(last_band + 1, begin + each); ++band) {
      const int64_t end = std::min(part.last() + 1, (band + 1) * kNvfp4Rows);
      for (int64_t row = std::max(part.first(), band * kNvfp4Rows); row < end;) {
        int64_t rows = 1;
        while (part.whole(row) && row + rows < end && part.whole(row + rows)) ++rows;
        for_square_blocks_of_rows(part, row, rows, body);
        row += rows;
      }
    }
  });
}

/// Of the block's first element in the part.
template <class Args>
int64_t place_in_part(const Args& args, const SquareBlock& block) {
  return block.row * args.columns + block.column - args.begin;
}

/// The block's rows as FP32, kNvfp4Columns apart.
template <class Args>
void load_square_block(const Args& args, const SquareBlock& block, const Nvfp4Kernels& kernels,
                       float* to) {
  const int64_t each = dtype_bytes(args.part.dtype());
  kernels.load(static_cast<const std::byte*>(args.part.raw()) + place_in_part(args, block) * each,
               args.columns * each, args.part.dtype(), block.rows, block.columns, false, to);
}

template <CpuIsa kIsa>
void launch_square_magnitudes(OpContext& context, const Choice&, const SquareMagnitudesArgs& args,
                              void*) {
  const Nvfp4Kernels& kernels = nvfp4_kernels(kIsa);
  constexpr auto kInfinity = std::bit_cast<int32_t>(std::numeric_limits<float>::infinity());
  for_square_blocks(context.device.pool(), args, [&](const SquareBlock& block) {
    alignas(64) float rows[kNvfp4Rows * kNvfp4Columns];
    alignas(64) int32_t most[kNvfp4Columns];
    load_square_block(args, block, kernels, rows);
    kernels.column_magnitudes(rows, block.rows, block.columns, most);
    float* const squares =
        args.magnitudes.data<float>() + block.row / kNvfp4Rows * args.magnitudes.dim(1);
    for (int64_t c = 0; c < block.columns;) {
      const int64_t square = (block.column + c) / kNvfp4Group;
      const int64_t end = std::min(block.columns, (square + 1) * kNvfp4Group - block.column);
      // Bits of magnitudes order as the values do; NaN is above infinity.
      auto largest = std::bit_cast<int32_t>(squares[square]);
      for (; c < end; ++c) largest = std::max(largest, most[c]);
      squares[square] = std::bit_cast<float>(std::min(largest, kInfinity));
    }
  });
}

template <CpuIsa kIsa>
void launch_square_scales(OpContext& context, const Choice&, const SquareScalesArgs& args, void*) {
  const Nvfp4Kernels& kernels = nvfp4_kernels(kIsa);
  const float matrix_scale = nvfp4_matrix_scale(args.amax.data<float>()[0]);
  args.matrix_scale.data<float>()[0] = matrix_scale;
  const float* const magnitudes = args.magnitudes.data<float>();
  for_row_runs(context.device.pool(), 1, args.scales.elements(),
               [&](int64_t, int64_t begin, int64_t n) {
                 alignas(64) int32_t most[kNvfp4Columns];
                 alignas(64) float divisors[kNvfp4Columns];
                 for (int64_t at = begin; at < begin + n; at += kNvfp4Columns) {
                   const int64_t count = std::min(kNvfp4Columns, begin + n - at);
                   for (int64_t i = 0; i < count; ++i)
                     most[i] = std::bit_cast<int32_t>(magnitudes[at + i]);
                   kernels.make_scales(most, count, matrix_scale,
                                       static_cast<uint8_t*>(args.scales.raw()) + at, divisors);
                 }
               });
}

template <CpuIsa kIsa>
void launch_square_codes(OpContext& context, const Choice&, const SquareCodesArgs& args, void*) {
  const Nvfp4Kernels& kernels = nvfp4_kernels(kIsa);
  const float matrix_scale = args.matrix_scale.data<float>()[0];
  for_square_blocks(context.device.pool(), args, [&](const SquareBlock& block) {
    alignas(64) float rows[kNvfp4Rows * kNvfp4Columns];
    alignas(64) float divisors[kNvfp4Columns / kNvfp4Group];
    load_square_block(args, block, kernels, rows);
    const int64_t first = block.column / kNvfp4Group;
    const int64_t count = (block.column + block.columns - 1) / kNvfp4Group - first + 1;
    const uint8_t* const scales = static_cast<const uint8_t*>(args.scales.raw()) +
                                  block.row / kNvfp4Rows * args.scales.dim(1) + first;
    kernels.read_scales(scales, count, divisors);
    for (int64_t g = 0; g < count; ++g)
      divisors[g] =
          scales[g] == 0 ? std::numeric_limits<float>::infinity() : divisors[g] * matrix_scale;
    auto* const codes = static_cast<uint8_t*>(args.codes.raw());
    for (int64_t r = 0; r < block.rows; ++r)
      kernels.encode(rows + r * kNvfp4Columns, divisors, kNvfp4Group, nullptr, block.columns,
                     codes + (place_in_part(args, block) + r * args.columns) / 2);
  });
}

template <class Args>
Choice choose_squares(const Args& args, const Traits&) {
  Choice choice;
  choice.kernel = "vector";
  choice.variant = kVectorKernel;
  choice.cost = cost_of(args);
  return choice;
}

template <CpuIsa kIsa>
void add_square_entries(OpTable& table) {
  table.square_magnitudes = {choose_squares<SquareMagnitudesArgs>, launch_square_magnitudes<kIsa>};
  table.square_scales = {choose_squares<SquareScalesArgs>, launch_square_scales<kIsa>};
  table.square_codes = {choose_squares<SquareCodesArgs>, launch_square_codes<kIsa>};
}

}  // namespace

void add_square_codes(OpTable& table, CpuIsa isa) {
  of_isa(isa, add_square_entries<CpuIsa::portable>, add_square_entries<CpuIsa::avx2>,
         add_square_entries<CpuIsa::avx512>)(table);
}

}  // namespace viaduct::cpu
