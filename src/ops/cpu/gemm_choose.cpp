// Choice and launch of matrix products on the cpu. The result is cut into blocks of one grid that
// starts at 0 and depends on the shape alone; a task is one block. A block is always computed with
// the same three sizes of FP32 product (edges are padded with zeros in scratch memory), so an
// element's order of summation depends on the contracted size alone, never on where it lies or on
// the number of threads. Operands of 16 bits are widened piece by piece into the same scratch, but
// BF16 where the instruction set has products of it: those run on tiles (gemm_tiles.h).

#include <algorithm>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm_entry.h"
#include "ops/cpu/gemm_tiles.h"
#include "ops/cpu/openblas.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

// 64 × 128 loses 4 % against 128 × 128 and wastes half as much at edges. Scratch of a task: 416 KB
// of its thread's stack, most of it in the second-level cache.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kBlockColumns = 128;
constexpr int64_t kDepth = 512;
// Distance of widened rows: not a power of two, or all of them would fall into the same few sets of
// the first-level cache.
constexpr int64_t kDepthStride = kDepth + 16;

/// An operand seen by a block: `blocked` is the dim that blocks cut, the other one is contracted.
struct Operand {
  const std::byte* data;
  DType dtype;
  int64_t stride;         // between rows in memory
  bool contracted_first;  // rows in memory run along the contracted dim
};

struct Problem {
  Operand a, b;
  int64_t rows, columns, depth;
};

Problem problem_of(const GemmArgs& args) {
  const bool weight_gradient = args.form == GemmForm::weight_gradient;
  const auto operand = [](const Tensor& t, bool contracted_first) {
    return Operand{static_cast<const std::byte*>(t.raw()), t.dtype(), t.stride(0),
                   contracted_first};
  };
  return {operand(args.a, weight_gradient), operand(args.b, args.form != GemmForm::forward),
          args.c.dim(0), args.c.dim(1), weight_gradient ? args.a.dim(0) : args.a.dim(1)};
}

/// Equal pieces of the contracted dim of at most kDepth, multiples of 16 but for the last.
int64_t depth_step(int64_t depth) {
  const int64_t pieces = std::max<int64_t>(1, (depth + kDepth - 1) / kDepth);
  return ((depth + pieces - 1) / pieces + 15) / 16 * 16;
}

/// Elements [begin, begin + count) of the blocked dim × [k, k + depth) as FP32 with `padded` rows
/// or columns: in place where that is possible, else in `scratch`.
struct Piece {
  const float* data;
  int64_t stride;
};
Piece piece_of(const Operand& operand, const GemmKernels& kernels, int64_t begin, int64_t count,
               int64_t padded, int64_t k, int64_t depth, float* scratch) {
  const int64_t row = operand.contracted_first ? k : begin;
  const int64_t column = operand.contracted_first ? begin : k;
  const void* from = operand.data + (row * operand.stride + column) * dtype_bytes(operand.dtype);
  if (operand.dtype == DType::f32 && count == padded)
    return {static_cast<const float*>(from), operand.stride};
  if (operand.contracted_first) {
    kernels.widen(from, operand.dtype, operand.stride, depth, count, scratch, padded, depth,
                  padded);
    return {scratch, padded};
  }
  kernels.widen(from, operand.dtype, operand.stride, count, depth, scratch, kDepthStride, padded,
                depth);
  return {scratch, kDepthStride};
}

void compute_block(const GemmArgs& args, const Problem& problem, const GemmKernels& kernels,
                   int64_t row, int64_t column, int64_t padded_columns) {
  alignas(64) float scratch_a[kBlockRows * kDepthStride];
  alignas(64) float scratch_b[kBlockColumns * kDepthStride];
  alignas(64) float scratch_c[kBlockRows * kBlockColumns];
  const int64_t rows = std::min(kBlockRows, problem.rows - row);
  const int64_t columns = std::min(padded_columns, problem.columns - column);
  const int64_t c_stride = args.c.stride(0);
  std::byte* const c = static_cast<std::byte*>(args.c.raw()) +
                       (row * c_stride + column) * dtype_bytes(args.c.dtype());
  const bool direct = args.c.dtype() == DType::f32 && args.mode == WriteMode::assign &&
                      !args.bias && rows == kBlockRows && columns == padded_columns;
  float* const sums = direct ? reinterpret_cast<float*>(c) : scratch_c;
  const int64_t sums_stride = direct ? c_stride : padded_columns;
  const int64_t step = depth_step(problem.depth);
  if (problem.depth == 0) std::fill_n(scratch_c, kBlockRows * kBlockColumns, 0.0f);
  for (int64_t k = 0; k < problem.depth; k += step) {
    const int64_t depth = std::min(step, problem.depth - k);
    const Piece a = piece_of(problem.a, kernels, row, rows, kBlockRows, k, depth, scratch_a);
    const Piece b =
        piece_of(problem.b, kernels, column, columns, padded_columns, k, depth, scratch_b);
    sgemm(problem.a.contracted_first, !problem.b.contracted_first, kBlockRows, padded_columns,
          depth, a.data, a.stride, b.data, b.stride, k > 0, sums, sums_stride);
  }
  if (direct && problem.depth > 0) return;
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::f32;
  if (args.bias) {
    bias_dtype = args.bias.dtype();
    bias = static_cast<const std::byte*>(args.bias.raw()) + column * dtype_bytes(bias_dtype);
  }
  kernels.store(scratch_c, padded_columns, rows, columns, bias, bias_dtype,
                args.mode == WriteMode::accumulate, c, args.c.dtype(), c_stride);
}

template <const GemmKernels& (*kKernels)()>
void launch_gemm(OpContext& context, const Choice& choice, const GemmArgs& args, void*) {
  if (choice.variant == kReferenceVariant) return reference::gemm(args);
  require_concurrent_openblas();
  const Problem problem = problem_of(args);
  const int64_t block_columns =
      problem.columns <= kBlockColumns / 2 ? kBlockColumns / 2 : kBlockColumns;
  const int64_t row_blocks = (problem.rows + kBlockRows - 1) / kBlockRows;
  const int64_t column_blocks = (problem.columns + block_columns - 1) / block_columns;
  context.device.pool().run(row_blocks * column_blocks, [&](int64_t task, int) {
    compute_block(args, problem, kKernels(), task % row_blocks * kBlockRows,
                  task / row_blocks * block_columns, block_columns);
  });
}

Choice choose_gemm(const GemmArgs& args, const Traits& traits) {
  const int64_t depth = args.form == GemmForm::weight_gradient ? args.a.dim(0) : args.a.dim(1);
  Choice choice = choose_by_dtype("gemm", args.a.dtype(), traits, "openblas");
  add_flops(choice, args.a.dtype(),
            2.0 * static_cast<double>(args.c.elements()) * static_cast<double>(depth));
  choice.cost.bytes_read = args.a.bytes() + args.b.bytes() + bytes_of(args.bias) +
                           (args.mode == WriteMode::accumulate ? args.c.bytes() : 0);
  choice.cost.bytes_written = args.c.bytes();
  return choice;
}

// C and the strips of A (196 and 96 KB) stay in the second-level cache; two strips of B stream
// through the first.
constexpr TileBlocking kBlockingAvx512Bf16{64, 768, 768};
// AMX is ten times as fast against the same caches: two strips of B and their share of A, 48 KB,
// in the first-level cache; 384 and 192 KB in the second.
constexpr TileBlocking kBlockingAmx{256, 384, 384};
// Choice::variant beside those of cpu_entry.h.
constexpr int kTileVariant = 2;

template <const TileBlocking& kBlocking>
Choice choose_with_tiles(const GemmArgs& args, const Traits& traits) {
  Choice choice = choose_gemm(args, traits);
  if (args.a.dtype() != DType::bf16) return choice;
  choice.variant = kTileVariant;
  choice.kernel = &kBlocking == &kBlockingAvx512Bf16 ? "tiles_avx512_bf16" : "tiles_amx";
  choice.workspace_bytes = tile_workspace_bytes(args, kBlocking);
  std::swap(choice.cost.flops[static_cast<size_t>(FlopFormat::f32)],
            choice.cost.flops[static_cast<size_t>(FlopFormat::bf16)]);
  return choice;
}

template <const TileKernels& (*kTiles)(), const TileBlocking& kBlocking>
void launch_with_tiles(OpContext& context, const Choice& choice, const GemmArgs& args,
                       void* workspace) {
  if (choice.variant != kTileVariant)
    return launch_gemm<avx512::gemm_kernels>(context, choice, args, workspace);
  gemm_on_tiles(context.device.pool(), args, kBlocking, kTiles(), avx512::gemm_kernels(),
                workspace);
}

template <const GemmKernels& (*kKernels)()>
void fill_table(OpTable& table) {
  table.gemm = {choose_gemm, launch_gemm<kKernels>};
}

}  // namespace

void add_gemm(OpTable& table, CpuIsa isa) {
  table.column_sum = column_sum_entry(isa);
  isa == CpuIsa::avx2 ? fill_table<avx2::gemm_kernels>(table)
                      : fill_table<avx512::gemm_kernels>(table);
  if (isa == CpuIsa::avx512_bf16) {
    table.gemm = {choose_with_tiles<kBlockingAvx512Bf16>,
                  launch_with_tiles<avx512_bf16::tile_kernels, kBlockingAvx512Bf16>};
  } else if (isa == CpuIsa::amx) {
    table.gemm = {choose_with_tiles<kBlockingAmx>,
                  launch_with_tiles<amx::tile_kernels, kBlockingAmx>};
  }
}

}  // namespace viaduct::cpu
