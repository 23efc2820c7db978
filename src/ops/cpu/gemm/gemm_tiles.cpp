#include "ops/cpu/gemm/gemm_tiles.h"

#include <algorithm>

namespace viaduct::cpu {
namespace {

// Bytes of B packed at a time: leaves room in the last-level cache.
constexpr int64_t kChunkBytes = int64_t{8} << 20;
// Strips per packing task: from a source whose rows run along the contracted dim it reads two cache
// lines of every row.
constexpr int64_t kPackStrips = 4;
// Columns of a block that are multiplied and stored at a time: more if an epilogue's kernel has a
// small cost per row, most if the kernel does little.
constexpr int64_t kRunColumns = 64, kActivatedColumns = 128, kResidualColumns = 768;
// Scratch of a task on its thread's stack, 768 KB: the maximum for blockings.
constexpr int64_t kMaxSums = 96 * 1024;     // FP32, rows × columns of a block
constexpr int64_t kMaxStrips = 192 * 1024;  // bytes, rows (or columns that a task packs) × depth
// Minimum number of blocks before they grow: work for many threads, and short waits for the last of
// them.
constexpr int64_t kWantedBlocks = 16;
constexpr int64_t kLeastColumns = 64;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Cuts `size` into equal pieces of at most `most`, multiples of `unit`; returns the piece.
int64_t even_piece(int64_t size, int64_t most, int64_t unit) {
  const int64_t pieces = std::max<int64_t>(1, ceil_div(size, most));
  return std::max<int64_t>(1, ceil_div(ceil_div(size, pieces), unit)) * unit;
}

int64_t run_columns(const GemmArgs& args) {
  if (args.epilogue.residual) return kResidualColumns;
  return args.epilogue.any() ? kActivatedColumns : kRunColumns;
}

template <class Element>
constexpr int64_t kStep = kStepDepth<Element>;
template <class Element>
constexpr int64_t kTile = kStepElements<Element>;

/// How a product is cut. All threads pack B, one chunk of columns after the other (or the task
/// itself, if no other task reads it), unless B is given as tiles; each task packs its own A.
struct Plan {
  TileSource a, b;     // b of a gated activation: the gate's columns
  int64_t halves = 1;  // 2: with every gate's columns those that it multiplies, `b.width`
                       // behind them
  int64_t rows = 0, columns = 0;  // of a block of C, one task (of each half)
  int64_t steps = 0;              // of the contracted dim
  int64_t visit = 0;              // steps between two visits to a block's C
  int64_t chunk = 0;              // columns of B packed at a time
  bool shared = true;             // B is packed by all threads
  bool tiles = false;             // B is given as tiles: strips of all steps, one after the other

  int64_t visit_steps(int64_t step) const { return std::min(visit, steps - step); }
  /// Tiles of a half of B packed at a time.
  int64_t chunk_tiles() const { return shared ? tile_strips(std::min(chunk, b.width)) * steps : 0; }
  int64_t chunk_bytes() const {
    constexpr int64_t kTileBytes = 1024;
    return halves * chunk_tiles() * kTileBytes;
  }
};

/// Columns of a block that packs its strips of B itself: limited by scratch.
template <class Element>
int64_t own_columns(const TileBlocking& blocking) {
  const int64_t most = kMaxStrips / (blocking.depth * static_cast<int64_t>(sizeof(Element)));
  return std::min(blocking.columns, most / (2 * kTileColumns) * (2 * kTileColumns));
}

/// For tiles only the sizes are set.
TileSource source_of(const Operand& matrix, bool contracted_first) {
  TileSource source;
  source.contracted_first = contracted_first;
  source.dtype = matrix.dtype();
  source.width = matrix.dim(contracted_first ? 1 : 0);
  source.depth = matrix.dim(contracted_first ? 0 : 1);
  if (!matrix.form().plain()) return source;
  source.data = matrix.tensor().raw();
  source.stride = matrix.tensor().stride(0);
  return source;
}

template <class Element>
Plan plan_of(const GemmArgs& args, const TileBlocking& blocking) {
  Plan plan;
  plan.a = source_of(args.a, args.form == GemmForm::weight_gradient);
  plan.b = source_of(args.b, args.form != GemmForm::forward);
  plan.halves = gates_columns(args) ? 2 : 1;
  plan.b.width /= plan.halves;
  plan.tiles = !args.b.form().plain();
  const bool one_row = plan.a.width <= blocking.rows;
  plan.shared = !one_row && !plan.tiles;
  int64_t rows = blocking.rows;
  int64_t columns = one_row && !plan.tiles ? own_columns<Element>(blocking) : blocking.columns;
  columns /= plan.halves;
  const auto too_few = [&] {
    return ceil_div(plan.a.width, rows) * ceil_div(plan.b.width, columns) < kWantedBlocks;
  };
  // Half the rows need no more packing of A; fewer would read too much of B per product.
  if (!one_row && too_few()) rows = ceil_div(rows / 2, kTileRows) * kTileRows;
  while (columns > kLeastColumns && too_few()) columns /= 2;
  plan.rows = even_piece(plan.a.width, rows, kTileRows);
  plan.columns = even_piece(plan.b.width, columns, 2 * kTileColumns);
  plan.steps = tile_steps<Element>(plan.a.depth);
  plan.visit = tile_visit<Element>(plan.a.depth, blocking);
  const int64_t fit = kChunkBytes / static_cast<int64_t>(sizeof(Element)) /
                      std::max<int64_t>(1, plan.halves * plan.b.depth);
  plan.chunk = plan.shared ? even_piece(plan.b.width, std::max(fit, blocking.columns / plan.halves),
                                        2 * kTileColumns)
                           : std::max<int64_t>(1, plan.b.width);
  return plan;
}

/// Packs `count` rows (columns) of `source` from `begin` × steps [step, step + steps).
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

/// A packed chunk of B: for every visit its strips are consecutive, so that the data of a block are
/// contiguous.
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
  float factor;
};

/// Prefetches a share of the next data to pack.
void fetch(const TileSource& source, int64_t share, int64_t shares) {
  const int64_t rows = source.contracted_first ? source.depth : source.width;
  const int64_t bytes =
      (source.contracted_first ? source.width : source.depth) * dtype_bytes(source.dtype);
  const int64_t stride = source.stride * dtype_bytes(source.dtype);
  for (int64_t row = rows * share / shares; row < rows * (share + 1) / shares; ++row) {
    const std::byte* from = static_cast<const std::byte*>(source.data) + row * stride;
    for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(from + byte, 0, 2);
  }
}

/// The part of A to pack after the visit at `step` of a block: for the next visit, or for the
/// thread's next block, at `next_row` (-1: none).
template <class Element>
TileSource packed_next(const Plan& plan, int64_t row, int64_t step, int64_t next_row) {
  const auto visit_of = [&](int64_t begin, int64_t from) {
    return part<Element>(plan.a, begin, std::min(plan.rows, plan.a.width - begin), from,
                         plan.visit_steps(from));
  };
  if (step + plan.visit < plan.steps) return visit_of(row, step + plan.visit);
  return next_row < 0 ? TileSource() : visit_of(next_row, 0);
}

/// Strips of B for a visit to a block: the first one, and the elements between two.
template <class Element>
struct Strips {
  const Element* first = nullptr;
  int64_t distance = 0;
};

/// The strips of `columns` from `column` of a half's chunk; `own`: where to pack them if they are
/// not packed yet.
template <class Element>
Strips<Element> strips_of(const Task<Element>& task, int64_t half, int64_t column, int64_t columns,
                          int64_t step, Element* own) {
  const Plan& plan = task.plan;
  const Chunk<Element>& chunk = task.chunks[half];
  const int64_t steps = plan.visit_steps(step);
  if (plan.tiles) {
    const int64_t distance = plan.steps * kTile<Element>;
    return {task.args.b.values().template data<Element>() +
                (chunk.begin + column) / kTileColumns * distance + step * kTile<Element>,
            distance};
  }
  if (plan.shared) return {chunk.at(plan, column / kTileColumns, step), steps * kTile<Element>};
  task.tiles.pack_b(part<Element>(plan.b, chunk.begin + column, columns, step, steps), own,
                    steps * kTile<Element>);
  return {own, steps * kTile<Element>};
}

/// The block at `row` of C and `column` of the chunk. `next_row`: of the thread's next block.
template <class Element>
void compute_block(const Task<Element>& task, int64_t row, int64_t column, int64_t next_row) {
  alignas(64) float sums[kMaxSums];
  constexpr int64_t kElements = kMaxStrips / static_cast<int64_t>(sizeof(Element));
  alignas(64) Element a_strips[kElements], b_strips[kElements];
  const Plan& plan = task.plan;
  const GemmArgs& args = task.args;
  const int64_t rows = std::min(plan.rows, plan.a.width - row);
  const Chunk<Element>& first = task.chunks[0];
  const int64_t columns = std::min(plan.columns, first.width - column);
  const bool direct = args.c.dtype() == DType::f32 && args.mode == WriteMode::assign &&
                      !args.bias && !args.epilogue.any() && task.factor == 1 &&
                      rows % kTileRows == 0 && columns % kTileColumns == 0;
  float* const c =
      direct ? args.c.data<float>() + row * args.c.stride(0) + first.begin + column : sums;
  TileProductOf<Element> product{.rows = rows};
  product.a = a_strips;
  product.c_stride = direct ? args.c.stride(0) : plan.halves * plan.columns;
  const TileScope scope(task.tiles);
  // At least once: an empty contraction gives zero.
  for (int64_t step = 0; step == 0 || step < plan.steps; step += plan.visit) {
    product.steps = plan.visit_steps(step);
    product.a_strip = product.steps * kTile<Element>;
    product.accumulate = step > 0;
    task.tiles.pack_a(part<Element>(plan.a, row, rows, step, product.steps), a_strips,
                      product.a_strip);
    Strips<Element> b[2];
    for (int64_t half = 0; half < plan.halves; ++half) {
      b[half] = strips_of(task, half, column, columns, step,
                          b_strips + half * tile_strips(columns) * product.a_strip);
    }
    const bool last = step + plan.visit >= plan.steps;
    const TileSource next = packed_next<Element>(plan, row, step, next_row);
    // Run by run, so that memory traffic overlaps with products.
    const int64_t run = run_columns(args);
    for (int64_t begin = 0; begin < columns; begin += run) {
      if (next.depth > 0) fetch(next, begin / run, ceil_div(columns, run));
      product.columns = std::min(run, columns - begin);
      product.more = begin + run < columns;
      const GemmBlock block{.row = row,
                            .rows = rows,
                            .column = first.begin + column + begin,
                            .columns = product.columns,
                            .sums = sums + begin,
                            .up_sums = plan.halves > 1 ? sums + plan.columns + begin : nullptr,
                            .stride = product.c_stride,
                            .factor = task.factor};
      if (last) fetch_block(args, block);
      for (int64_t half = 0; half < plan.halves; ++half) {
        product.b = b[half].first + begin / kTileColumns * b[half].distance;
        product.b_strip = b[half].distance;
        product.c = c + half * plan.columns + begin;
        task.tiles.product(product);
      }
      if (last && !direct) finish_block(args, task.kernels, block);
    }
  }
}

}  // namespace

template <class Element>
int64_t tile_visit(int64_t depth, const TileBlocking& blocking) {
  return even_piece(tile_steps<Element>(depth), blocking.depth / kStep<Element>, 1);
}

template <class Element>
int64_t tile_workspace_bytes(const GemmArgs& args, const TileBlocking& blocking) {
  return plan_of<Element>(args, blocking).chunk_bytes();
}

template <class Element>
void gemm_on_tiles(ThreadPool& pool, const GemmArgs& args, const TileBlocking& blocking,
                   const TileKernelsOf<Element>& tiles, const FinishKernels& kernels,
                   void* workspace, float factor) {
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
         {packed + plan.chunk_tiles() * kTile<Element>, plan.b.width + column, width}},
        factor};
    const int64_t packing = plan.shared ? task.chunks[0].tasks(plan) : 0;
    pool.run(plan.halves * packing, [&](int64_t index, int) {
      task.chunks[index / packing].pack_task(plan, tiles, index % packing);
    });
    const int64_t blocks = row_blocks * ceil_div(width, plan.columns);
    pool.run(blocks, [&](int64_t index, int) {
      const int64_t next = index + pool.threads();
      compute_block(task, index % row_blocks * plan.rows, index / row_blocks * plan.columns,
                    next < blocks ? next % row_blocks * plan.rows : -1);
    });
  }
}

OperandForm bf16_tiles(Orientation orientation) {
  return {"bf16_tiles", orientation, {kTileColumns, kTileDepth}};
}

void pack_bf16_tiles(ThreadPool& pool, const ConvertOperandArgs& args, const TileKernels& tiles) {
  const TileSource matrix =
      source_of(args.matrix, args.out.form().orientation == Orientation::column_wise);
  const int64_t steps = tile_steps(matrix.depth), strip = steps * kTileElements;
  bfloat16* const to = args.out.values().data<bfloat16>();
  pool.run(ceil_div(tile_strips(matrix.width), kPackStrips), [&](int64_t index, int) {
    const int64_t begin = index * kPackStrips * kTileColumns;
    const int64_t count = std::min(kPackStrips * kTileColumns, matrix.width - begin);
    tiles.pack_b(part<bfloat16>(matrix, begin, count, 0, steps), to + index * kPackStrips * strip,
                 strip);
  });
}

template int64_t tile_visit<bfloat16>(int64_t, const TileBlocking&);
template int64_t tile_visit<float>(int64_t, const TileBlocking&);
template int64_t tile_workspace_bytes<bfloat16>(const GemmArgs&, const TileBlocking&);
template int64_t tile_workspace_bytes<float>(const GemmArgs&, const TileBlocking&);
template void gemm_on_tiles(ThreadPool&, const GemmArgs&, const TileBlocking&,
                            const TileKernelsOf<bfloat16>&, const FinishKernels&, void*, float);
template void gemm_on_tiles(ThreadPool&, const GemmArgs&, const TileBlocking&,
                            const TileKernelsOf<float>&, const FinishKernels&, void*, float);

}  // namespace viaduct::cpu
