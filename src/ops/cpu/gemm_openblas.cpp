#include "ops/cpu/gemm_openblas.h"

#include <algorithm>

#include "ops/cpu/openblas.h"

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
          args.c.dim(0), args.b.dim(args.form == GemmForm::forward ? 0 : 1),
          weight_gradient ? args.a.dim(0) : args.a.dim(1)};
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

void compute_block(const GemmArgs& args, const Problem& problem, const FinishKernels& kernels,
                   int64_t row, int64_t column, int64_t padded_columns) {
  alignas(64) float scratch_a[kBlockRows * kDepthStride];
  alignas(64) float scratch_b[kBlockColumns * kDepthStride];
  alignas(64) float scratch_c[kBlockRows * kBlockColumns];
  const int64_t rows = std::min(kBlockRows, problem.rows - row);
  const int64_t columns = std::min(padded_columns, problem.columns - column);
  const int64_t c_stride = args.c.stride(0);
  const bool direct = args.c.dtype() == DType::f32 && args.mode == WriteMode::assign &&
                      !args.bias && !args.epilogue.any() && rows == kBlockRows &&
                      columns == padded_columns;
  float* const sums = direct ? args.c.data<float>() + row * c_stride + column : scratch_c;
  const int64_t sums_stride = direct ? c_stride : padded_columns;
  const int64_t step = depth_step(problem.depth);
  if (problem.depth == 0) std::fill_n(scratch_c, kBlockRows * kBlockColumns, 0.0f);
  for (int64_t k = 0; k < problem.depth; k += step) {
    const int64_t depth = std::min(step, problem.depth - k);
    const Piece a = piece_of(problem.a, kernels.gemm, row, rows, kBlockRows, k, depth, scratch_a);
    const Piece b =
        piece_of(problem.b, kernels.gemm, column, columns, padded_columns, k, depth, scratch_b);
    sgemm(problem.a.contracted_first, !problem.b.contracted_first, kBlockRows, padded_columns,
          depth, a.data, a.stride, b.data, b.stride, k > 0, sums, sums_stride);
  }
  if (direct && problem.depth > 0) return;
  finish_block(args, kernels,
               {.row = row,
                .rows = rows,
                .column = column,
                .columns = columns,
                .sums = scratch_c,
                .stride = padded_columns});
}

}  // namespace

void gemm_on_openblas(ThreadPool& pool, const GemmArgs& args, const FinishKernels& kernels) {
  require_concurrent_openblas();
  GemmArgs blocks = args;
  if (gates_columns(args)) blocks.epilogue = {};
  const Problem problem = problem_of(args);
  const int64_t block_columns =
      problem.columns <= kBlockColumns / 2 ? kBlockColumns / 2 : kBlockColumns;
  const int64_t row_blocks = (problem.rows + kBlockRows - 1) / kBlockRows;
  const int64_t column_blocks = (problem.columns + block_columns - 1) / block_columns;
  pool.run(row_blocks * column_blocks, [&](int64_t task, int) {
    compute_block(blocks, problem, kernels, task % row_blocks * kBlockRows,
                  task / row_blocks * block_columns, block_columns);
  });
  if (!gates_columns(args)) return;
  pool.run(row_blocks, [&](int64_t task, int) {
    const int64_t row = task * kBlockRows;
    activate_rows(args, kernels, row, std::min(kBlockRows, problem.rows - row));
  });
}

}  // namespace viaduct::cpu
