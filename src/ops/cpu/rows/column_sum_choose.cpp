// Choice and launch of column sums: blocks of rows are summed separately and their sums added in
// order. A block adds up pieces of few rows, so that no sum is long. The boundaries of blocks and
// pieces depend only on the shape.

#include <algorithm>

#include "ops/cpu/rows/column_sum_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const ColumnSumKernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::column_sum_kernels, avx2::column_sum_kernels,
                    avx512::column_sum_kernels);
}

struct Blocks {
  static constexpr int64_t kTaskElements = 65536;  // of x, so that a task costs more than its start
  static constexpr int64_t kMostColumns = 4096;    // of a task: their sums stay in the L1 cache
  static constexpr int64_t kMostBlocks = 64;
  static constexpr int64_t kPieceRows = 128;

  explicit Blocks(const Tensor& x)
      : rows(x.dim(0)),
        columns(x.dim(1)),
        width(std::min(columns, kMostColumns)),
        panels(columns == 0 ? 0 : (columns + width - 1) / width),
        rows_per_block(std::max<int64_t>({4, kTaskElements / std::max<int64_t>(1, width),
                                          (rows + kMostBlocks - 1) / kMostBlocks})),
        blocks((rows + rows_per_block - 1) / rows_per_block),
        stride((columns + 15) / 16 * 16) {}

  int64_t rows, columns, width, panels, rows_per_block, blocks;
  int64_t stride;  // floats between the sums of two rows of sums: blocks have a piece's behind
                   // their own
};

template <CpuIsa isa>
Choice choose(const ColumnSumArgs& args, const Traits&) {
  Choice choice = vector_choice("column_sum", isa, args.x.dtype());
  choice.cost = cost_of(args);
  if (choice.variant != kReferenceKernel) {
    const Blocks blocks(args.x);
    choice.workspace_bytes = blocks.blocks * 2 * blocks.stride * 4;
    choice.launches = 2;
  }
  return choice;
}

void launch(OpContext& context, const Choice& choice, const ColumnSumArgs& args, void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::column_sum(args);
  const Blocks b(args.x);
  auto* partial = static_cast<float*>(workspace);
  auto* out = args.out.data<float>();
  const auto* x = static_cast<const std::byte*>(args.x.raw());
  ThreadPool& pool = context.device.pool();
  pool.run(b.blocks * b.panels, [&](int64_t task, int) {
    const int64_t block = task / b.panels, column = task % b.panels * b.width;
    const int64_t begin = block * b.rows_per_block;
    const int64_t end = std::min(b.rows, begin + b.rows_per_block);
    const int64_t columns = std::min(b.width, b.columns - column);
    float* const sums = partial + block * 2 * b.stride + column;
    float* const piece = sums + b.stride;
    for (int64_t row = begin; row < end; row += Blocks::kPieceRows) {
      kernels(choice).sum_rows(x + (row * args.x.stride(0) + column) * dtype_bytes(args.x.dtype()),
                               args.x.dtype(), args.x.stride(0),
                               std::min(Blocks::kPieceRows, end - row), columns,
                               row == begin ? sums : piece);
      if (row > begin) kernels(choice).merge(piece, 1, 0, columns, true, sums);
    }
  });
  constexpr int64_t kMergeColumns = 1024;
  pool.run((b.columns + kMergeColumns - 1) / kMergeColumns, [&](int64_t task, int) {
    const int64_t column = task * kMergeColumns;
    kernels(choice).merge(partial + column, b.blocks, 2 * b.stride,
                          std::min(kMergeColumns, b.columns - column),
                          args.mode == WriteMode::accumulate, out + column);
  });
}

}  // namespace

OpEntry<ColumnSumArgs> column_sum_entry(CpuIsa isa) {
  return {of_isa(isa, choose<CpuIsa::portable>, choose<CpuIsa::avx2>, choose<CpuIsa::avx512>),
          launch};
}

}  // namespace viaduct::cpu
