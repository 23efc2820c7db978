#include "ops/cpu/gemm_tiles.h"

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "ops/cpu/cpu_entry.h"

namespace viaduct::cpu {
namespace {

// Of one operand, packed, at a time: two of them leave room in a last-level cache.
constexpr int64_t kChunkBytes = int64_t{8} << 20;
// Strips that a packing task makes: of a source whose rows run along the contracted dim it reads
// two cache lines of every row.
constexpr int64_t kPackStrips = 4;
// What blockings may ask for at most: scratch of a task on its thread's stack, 1.4 MB.
constexpr int64_t kMaxRows = 256, kMaxColumns = 384, kMaxDepth = 768;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// One side of the product: an operand and how it is cut.
struct Side {
  TileSource source;  // the whole operand
  bool is_b = false;
  int64_t block = 0;   // rows or columns of a block of C
  int64_t chunk = 0;   // rows or columns that are packed at a time, a multiple of `block`
  bool shared = true;  // more than one block reads a packed strip; else its task packs it

  int64_t blocks() const { return ceil_div(source.width, block); }
  int64_t chunk_bytes() const {
    return shared ? tile_strips(std::min(chunk, source.width)) * tile_steps(source.depth) *
                        kTileElements * 2
                  : 0;
  }
};

struct Plan {
  Side a, b;
  int64_t steps = 0;        // of the contracted dim
  int64_t chunk_steps = 0;  // of them between two visits of a block's C
};

Side side_of(const Tensor& t, bool contracted_first, bool is_b, int64_t width, int64_t depth,
             int64_t block, int64_t other_blocks) {
  Side side;
  side.source = {t.raw(), t.dtype(), t.stride(0), contracted_first, width, depth};
  side.is_b = is_b;
  side.block = block;
  side.shared = other_blocks > 1;
  const int64_t blocks = ceil_div(width, block);
  const int64_t chunks = ceil_div(blocks * block * depth * 2, kChunkBytes);
  side.chunk = std::max<int64_t>(1, ceil_div(blocks, std::max<int64_t>(1, chunks))) * block;
  return side;
}

Plan plan_of(const GemmArgs& args, const TileBlocking& blocking) {
  const bool weight_gradient = args.form == GemmForm::weight_gradient;
  const int64_t rows = args.c.dim(0), columns = args.c.dim(1);
  const int64_t depth = weight_gradient ? args.a.dim(0) : args.a.dim(1);
  // Few rows are bound by reading B: small tasks, each of which packs its own strips.
  const int64_t block_columns = rows <= kTileRows ? 4 * kTileColumns : blocking.columns;
  const int64_t row_blocks = ceil_div(rows, blocking.rows);
  const int64_t column_blocks = ceil_div(columns, block_columns);
  Plan plan;
  plan.a = side_of(args.a, weight_gradient, false, rows, depth, blocking.rows, column_blocks);
  plan.b = side_of(args.b, args.form != GemmForm::forward, true, columns, depth, block_columns,
                   row_blocks);
  plan.steps = tile_steps(depth);
  const int64_t pieces = std::max<int64_t>(1, ceil_div(plan.steps * kTileDepth, blocking.depth));
  plan.chunk_steps = std::max<int64_t>(1, ceil_div(plan.steps, pieces));
  return plan;
}

/// Packs strips of `side` × steps [step, step + steps) into `to`.
void pack(const Side& side, const TileKernels& tiles, int64_t begin, int64_t width, int64_t step,
          int64_t steps, bfloat16* to, int64_t strip) {
  TileSource piece = side.source;
  const int64_t k = step * kTileDepth;
  const int64_t row = side.source.contracted_first ? k : begin;
  const int64_t column = side.source.contracted_first ? begin : k;
  piece.data = static_cast<const bfloat16*>(side.source.data) + row * piece.stride + column;
  piece.width = width;
  piece.depth = std::min(steps * kTileDepth, side.source.depth - k);
  (side.is_b ? tiles.pack_b : tiles.pack_a)(piece, to, strip);
}

/// A chunk of a side, packed: for every chunk of steps its strips one after the other (so that the
/// strips that a block uses together are contiguous).
struct Packed {
  const Side* side;
  bfloat16* data;
  int64_t begin, width;  // of the side's rows or columns

  int64_t strips() const { return tile_strips(width); }
  bfloat16* at(const Plan& plan, int64_t strip, int64_t step) const {
    const int64_t steps = std::min(plan.chunk_steps, plan.steps - step);
    return data + (step * strips() + strip * steps) * kTileElements;
  }
  int64_t tasks(const Plan& plan) const {
    return ceil_div(strips(), kPackStrips) * ceil_div(plan.steps, plan.chunk_steps);
  }
  void pack_task(const Plan& plan, const TileKernels& tiles, int64_t task) const {
    const int64_t groups = ceil_div(strips(), kPackStrips);
    const int64_t strip = task % groups * kPackStrips;
    const int64_t step = task / groups * plan.chunk_steps;
    const int64_t steps = std::min(plan.chunk_steps, plan.steps - step);
    const int64_t from = strip * kTileRows;
    pack(*side, tiles, begin + from, std::min(kPackStrips * kTileRows, width - from), step, steps,
         at(plan, strip, step), steps * kTileElements);
  }
};

/// The strips of a block for one chunk of steps: where they lie packed, or packed here.
const bfloat16* strips_of(const Packed& packed, const Plan& plan, const TileKernels& tiles,
                          int64_t begin, int64_t width, int64_t step, int64_t steps,
                          bfloat16* scratch) {
  if (packed.side->shared) return packed.at(plan, begin / kTileRows, step);
  pack(*packed.side, tiles, packed.begin + begin, width, step, steps, scratch,
       steps * kTileElements);
  return scratch;
}

struct Task {
  const GemmArgs& args;
  const Plan& plan;
  const TileKernels& tiles;
  const GemmKernels& kernels;
};

/// The block at `row`, `column` of chunks a and b.
void compute_block(const Task& task, const Packed& a, const Packed& b, int64_t row,
                   int64_t column) {
  alignas(64) float sums[kMaxRows * kMaxColumns];
  // For strips that are not shared.
  alignas(64) bfloat16 a_strips[kMaxRows * kMaxDepth];
  alignas(64) bfloat16 b_strips[kMaxColumns * kMaxDepth];
  const Plan& plan = task.plan;
  const GemmArgs& args = task.args;
  const int64_t rows = std::min(plan.a.block, a.width - row);
  const int64_t columns = std::min(plan.b.block, b.width - column);
  const int64_t c_stride = args.c.stride(0);
  std::byte* const c =
      static_cast<std::byte*>(args.c.raw()) +
      ((a.begin + row) * c_stride + b.begin + column) * dtype_bytes(args.c.dtype());
  const bool direct = args.c.dtype() == DType::f32 && args.mode == WriteMode::assign &&
                      !args.bias && rows % kTileRows == 0 && columns % kTileColumns == 0;
  TileProduct product{.rows = rows, .columns = columns};
  product.c = direct ? reinterpret_cast<float*>(c) : sums;
  product.c_stride = direct ? c_stride : plan.b.block;
  const TileScope scope(task.tiles);
  // At least once: nothing contracted is a sum of zero.
  for (int64_t step = 0; step == 0 || step < plan.steps; step += plan.chunk_steps) {
    const int64_t steps = std::min(plan.chunk_steps, plan.steps - step);
    product.steps = steps;
    product.a = strips_of(a, plan, task.tiles, row, rows, step, steps, a_strips);
    product.b = strips_of(b, plan, task.tiles, column, columns, step, steps, b_strips);
    product.a_strip = product.b_strip = steps * kTileElements;
    product.accumulate = step > 0;
    task.tiles.product(product);
  }
  if (direct) return;
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::f32;
  if (args.bias) {
    bias_dtype = args.bias.dtype();
    bias = static_cast<const std::byte*>(args.bias.raw()) +
           (b.begin + column) * dtype_bytes(bias_dtype);
  }
  task.kernels.store(sums, plan.b.block, rows, columns, bias, bias_dtype,
                     args.mode == WriteMode::accumulate, c, args.c.dtype(), c_stride);
}

}  // namespace

int64_t tile_workspace_bytes(const GemmArgs& args, const TileBlocking& blocking) {
  const Plan plan = plan_of(args, blocking);
  return plan.a.chunk_bytes() + plan.b.chunk_bytes();
}

void gemm_on_tiles(ThreadPool& pool, const GemmArgs& args, const TileBlocking& blocking,
                   const TileKernels& tiles, const GemmKernels& kernels, void* workspace) {
  const Plan plan = plan_of(args, blocking);
  const Task task{args, plan, tiles, kernels};
  auto* const memory = static_cast<bfloat16*>(workspace);
  const int64_t rows = args.c.dim(0), columns = args.c.dim(1);
  for (int64_t column = 0; column < columns; column += plan.b.chunk) {
    const Packed b{&plan.b, memory + plan.a.chunk_bytes() / 2, column,
                   std::min(plan.b.chunk, columns - column)};
    for (int64_t row = 0; row < rows; row += plan.a.chunk) {
      const Packed a{&plan.a, memory, row, std::min(plan.a.chunk, rows - row)};
      const bool pack_a = plan.a.shared && (column == 0 || plan.a.chunk < rows);
      const bool pack_b = plan.b.shared && row == 0;
      const int64_t a_tasks = pack_a ? a.tasks(plan) : 0, b_tasks = pack_b ? b.tasks(plan) : 0;
      pool.run(a_tasks + b_tasks, [&](int64_t index, int) {
        index < a_tasks ? a.pack_task(plan, tiles, index)
                        : b.pack_task(plan, tiles, index - a_tasks);
      });
      const int64_t row_blocks = ceil_div(a.width, plan.a.block);
      const int64_t column_blocks = ceil_div(b.width, plan.b.block);
      pool.run(row_blocks * column_blocks, [&](int64_t index, int) {
        compute_block(task, a, b, index % row_blocks * plan.a.block,
                      index / row_blocks * plan.b.block);
      });
    }
  }
}

}  // namespace viaduct::cpu
