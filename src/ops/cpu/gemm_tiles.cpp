#include "ops/cpu/gemm_tiles.h"

#include <algorithm>

namespace viaduct::cpu {
namespace {

// Of B, packed, at a time: leaves room in a last-level cache.
constexpr int64_t kChunkBytes = int64_t{8} << 20;
// Strips that a packing task makes: of a source whose rows run along the contracted dim it reads
// two cache lines of every row.
constexpr int64_t kPackStrips = 4;
// Scratch of a task on its thread's stack, 768 KB: what blockings may ask for at most.
constexpr int64_t kMaxSums = 96 * 1024;     // FP32, rows × columns of a block
constexpr int64_t kMaxStrips = 192 * 1024;  // bytes, rows (or columns that a task packs) × depth
// Blocks that are wanted before they become wide: work for many threads, and short waits for the
// last of them.
constexpr int64_t kWantedBlocks = 32;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Equal pieces of `size` of at most `most`, multiples of `unit`.
int64_t even_piece(int64_t size, int64_t most, int64_t unit) {
  const int64_t pieces = std::max<int64_t>(1, ceil_div(size, most));
  return std::max<int64_t>(1, ceil_div(ceil_div(size, pieces), unit)) * unit;
}

template <class Element>
constexpr int64_t kStep = kStepDepth<Element>;
template <class Element>
constexpr int64_t kTile = kStepElements<Element>;

/// How a product is cut. B is packed by all threads, one chunk of columns after the other (but by
/// the task itself where no other one reads it), A by the task that needs it.
struct Plan {
  TileSource a, b;     // b of a gated activation: the gate's columns
  int64_t halves = 1;  // 2: with every gate's columns those that it multiplies, `b.width`
                       // behind them
  int64_t rows = 0, columns = 0;  // of a block of C, one task (of each half)
  int64_t steps = 0;              // of the contracted dim
  int64_t visit = 0;              // steps between two visits of a block's C
  int64_t chunk = 0;              // columns of B packed at a time, whole blocks
  bool shared = true;             // B is

  int64_t visit_steps(int64_t step) const { return std::min(visit, steps - step); }
  /// Of a half of B packed at a time.
  int64_t chunk_tiles() const { return shared ? tile_strips(std::min(chunk, b.width)) * steps : 0; }
  int64_t chunk_bytes() const {
    constexpr int64_t kTileBytes = 1024;
    return halves * chunk_tiles() * kTileBytes;
  }
};

/// Columns of a block that packs its strips of B itself: what scratch has room for.
template <class Element>
int64_t own_columns(const TileBlocking& blocking) {
  const int64_t most = kMaxStrips / (blocking.depth * static_cast<int64_t>(sizeof(Element)));
  return std::min(blocking.columns, most / (2 * kTileColumns) * (2 * kTileColumns));
}

template <class Element>
Plan plan_of(const GemmArgs& args, const TileBlocking& blocking) {
  const auto source = [](const Tensor& t, bool contracted_first) {
    return TileSource{t.raw(),
                      t.dtype(),
                      t.stride(0),
                      contracted_first,
                      t.dim(contracted_first ? 1 : 0),
                      t.dim(contracted_first ? 0 : 1)};
  };
  Plan plan;
  plan.a = source(args.a, args.form == GemmForm::weight_gradient);
  plan.b = source(args.b, args.form != GemmForm::forward);
  plan.halves = gates_columns(args) ? 2 : 1;
  plan.b.width /= plan.halves;
  plan.rows = even_piece(plan.a.width, blocking.rows, kTileRows);
  const int64_t row_blocks = ceil_div(plan.a.width, plan.rows);
  plan.shared = row_blocks > 1;
  int64_t most = plan.shared ? blocking.columns : own_columns<Element>(blocking);
  most /= plan.halves;
  while (most > 4 * kTileColumns && row_blocks * ceil_div(plan.b.width, most) < kWantedBlocks)
    most /= 2;
  plan.columns = even_piece(plan.b.width, most, 2 * kTileColumns);
  plan.steps = tile_steps<Element>(plan.a.depth);
  plan.visit = even_piece(plan.steps, blocking.depth / kStep<Element>, 1);
  plan.chunk =
      std::max<int64_t>(1, kChunkBytes / static_cast<int64_t>(sizeof(Element)) /
                               std::max<int64_t>(1, plan.halves * plan.columns * plan.b.depth)) *
      plan.columns;
  plan.chunk = even_piece(plan.b.width, plan.chunk, plan.columns);
  return plan;
}

/// `count` rows (columns) of `source` from `begin` × steps [step, step + steps).
template <class Element>
TileSource part(const TileSource& source, int64_t begin, int64_t count, int64_t step,
                int64_t steps) {
  TileSource piece = source;
  const int64_t k = step * kStep<Element>;
  const int64_t row = source.contracted_first ? k : begin;
  const int64_t column = source.contracted_first ? begin : k;
  piece.data = static_cast<const std::byte*>(source.data) +
               (row * source.stride + column) * dtype_bytes(source.dtype);
  piece.width = count;
  piece.depth = std::min(steps * kStep<Element>, source.depth - k);
  return piece;
}

/// A chunk of B, packed: for every visit its strips one after the other, so that what a block uses
/// together is contiguous.
template <class Element>
struct Chunk {
  Element* data;
  int64_t begin, width;

  Element* at(const Plan& plan, int64_t strip, int64_t step) const {
    return data + (step * tile_strips(width) + strip * plan.visit_steps(step)) * kTile<Element>;
  }
  int64_t tasks(const Plan& plan) const {
    return ceil_div(tile_strips(width), kPackStrips) * ceil_div(plan.steps, plan.visit);
  }
  void pack_task(const Plan& plan, const TileKernelsOf<Element>& tiles, int64_t task) const {
    const int64_t groups = ceil_div(tile_strips(width), kPackStrips);
    const int64_t strip = task % groups * kPackStrips, step = task / groups * plan.visit;
    const int64_t steps = plan.visit_steps(step), from = strip * kTileColumns;
    const int64_t count = std::min(kPackStrips * kTileColumns, width - from);
    tiles.pack_b(part<Element>(plan.b, begin + from, count, step, steps), at(plan, strip, step),
                 steps * kTile<Element>);
  }
};

template <class Element>
struct Task {
  const GemmArgs& args;
  const Plan& plan;
  const TileKernelsOf<Element>& tiles;
  const FinishKernels& kernels;
  Chunk<Element> chunks[2];  // of each half
};

/// The block at `row` of C and `column` of the chunk.
template <class Element>
void compute_block(const Task<Element>& task, int64_t row, int64_t column) {
  alignas(64) float sums[kMaxSums];
  constexpr int64_t kElements = kMaxStrips / static_cast<int64_t>(sizeof(Element));
  alignas(64) Element a_strips[kElements], b_strips[kElements];
  const Plan& plan = task.plan;
  const GemmArgs& args = task.args;
  const int64_t rows = std::min(plan.rows, plan.a.width - row);
  const Chunk<Element>& first = task.chunks[0];
  const int64_t columns = std::min(plan.columns, first.width - column);
  const bool direct = args.c.dtype() == DType::f32 && args.mode == WriteMode::assign &&
                      !args.bias && !args.epilogue.any() && rows % kTileRows == 0 &&
                      columns % kTileColumns == 0;
  TileProductOf<Element> product{.rows = rows, .columns = columns};
  product.a = a_strips;
  product.c_stride = direct ? args.c.stride(0) : plan.halves * plan.columns;
  const TileScope scope(task.tiles);
  // At least once: nothing contracted is a sum of zero.
  for (int64_t step = 0; step == 0 || step < plan.steps; step += plan.visit) {
    product.steps = plan.visit_steps(step);
    product.a_strip = product.b_strip = product.steps * kTile<Element>;
    task.tiles.pack_a(part<Element>(plan.a, row, rows, step, product.steps), a_strips,
                      product.a_strip);
    product.accumulate = step > 0;
    for (int64_t half = 0; half < plan.halves; ++half) {
      const Chunk<Element>& chunk = task.chunks[half];
      if (plan.shared) {
        product.b = chunk.at(plan, column / kTileColumns, step);
      } else {
        task.tiles.pack_b(part<Element>(plan.b, chunk.begin + column, columns, step, product.steps),
                          b_strips, product.b_strip);
        product.b = b_strips;
      }
      product.c = direct ? args.c.data<float>() + row * args.c.stride(0) + chunk.begin + column
                         : sums + half * plan.columns;
      task.tiles.product(product);
    }
  }
  if (direct) return;
  finish_block(args, task.kernels,
               {.row = row,
                .rows = rows,
                .column = first.begin + column,
                .columns = columns,
                .sums = sums,
                .up_sums = plan.halves > 1 ? sums + plan.columns : nullptr,
                .stride = product.c_stride});
}

}  // namespace

template <class Element>
int64_t tile_workspace_bytes(const GemmArgs& args, const TileBlocking& blocking) {
  return plan_of<Element>(args, blocking).chunk_bytes();
}

template <class Element>
void gemm_on_tiles(ThreadPool& pool, const GemmArgs& args, const TileBlocking& blocking,
                   const TileKernelsOf<Element>& tiles, const FinishKernels& kernels,
                   void* workspace) {
  const Plan plan = plan_of<Element>(args, blocking);
  const int64_t row_blocks = ceil_div(plan.a.width, plan.rows);
  for (int64_t column = 0; column < plan.b.width; column += plan.chunk) {
    Element* const packed = static_cast<Element*>(workspace);
    const int64_t width = std::min(plan.chunk, plan.b.width - column);
    const Task<Element> task{
        args,
        plan,
        tiles,
        kernels,
        {{packed, column, width},
         {packed + plan.chunk_tiles() * kTile<Element>, plan.b.width + column, width}}};
    const int64_t packing = plan.shared ? task.chunks[0].tasks(plan) : 0;
    pool.run(plan.halves * packing, [&](int64_t index, int) {
      task.chunks[index / packing].pack_task(plan, tiles, index % packing);
    });
    pool.run(row_blocks * ceil_div(width, plan.columns), [&](int64_t index, int) {
      compute_block(task, index % row_blocks * plan.rows, index / row_blocks * plan.columns);
    });
  }
}

template int64_t tile_workspace_bytes<bfloat16>(const GemmArgs&, const TileBlocking&);
template int64_t tile_workspace_bytes<float>(const GemmArgs&, const TileBlocking&);
template void gemm_on_tiles(ThreadPool&, const GemmArgs&, const TileBlocking&,
                            const TileKernelsOf<bfloat16>&, const FinishKernels&, void*);
template void gemm_on_tiles(ThreadPool&, const GemmArgs&, const TileBlocking&,
                            const TileKernelsOf<float>&, const FinishKernels&, void*);

}  // namespace viaduct::cpu
