// Choice and launch of column sums: blocks of rows are summed apart and their sums added in order.
// The borders of blocks depend on the shape alone.

#include <algorithm>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const ColumnSumKernels& kernels(const Choice& choice) {
  return choice.variant == kAvx2Kernel ? avx2::column_sum_kernels : avx512::column_sum_kernels;
}

struct Blocks {
  static constexpr int64_t kTaskElements = 65536;  // of x, so that a task outweighs its start
  static constexpr int64_t kMostColumns = 4096;    // of a task: their sums stay in the first cache
  static constexpr int64_t kMostBlocks = 64;

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
  int64_t stride;  // floats between the sums of two blocks
};

template <CpuIsa isa>
Choice choose(const ColumnSumArgs& args, const Traits&) {
  Choice choice = vector_choice("column_sum", isa, args.x.dtype());
  add_flops(choice, args.x.dtype(), static_cast<double>(args.x.elements()));
  choice.cost.bytes_read =
      args.x.bytes() + (args.mode == WriteMode::accumulate ? args.out.bytes() : 0);
  choice.cost.bytes_written = args.out.bytes();
  if (choice.variant != kReferenceKernel) {
    const Blocks blocks(args.x);
    choice.workspace_bytes = blocks.blocks * blocks.stride * 4;
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
    const int64_t row = block * b.rows_per_block;
    kernels(choice).sum_rows(
        x + (row * args.x.stride(0) + column) * dtype_bytes(args.x.dtype()), args.x.dtype(),
        args.x.stride(0), std::min(b.rows_per_block, b.rows - row),
        std::min(b.width, b.columns - column), partial + block * b.stride + column);
  });
  constexpr int64_t kMergeColumns = 1024;
  pool.run((b.columns + kMergeColumns - 1) / kMergeColumns, [&](int64_t task, int) {
    const int64_t column = task * kMergeColumns;
    kernels(choice).merge(partial + column, b.blocks, b.stride,
                          std::min(kMergeColumns, b.columns - column),
                          args.mode == WriteMode::accumulate, out + column);
  });
}

}  // namespace

OpEntry<ColumnSumArgs> column_sum_entry(CpuIsa isa) {
  if (isa == CpuIsa::avx2) return {choose<CpuIsa::avx2>, launch};
  return {choose<CpuIsa::avx512>, launch};
}

}  // namespace viaduct::cpu
