#pragma once
// How products on tiles are cut into tasks: see gemm_tiles.h.

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "ops/cpu/gemm/gemm_tiles.h"

namespace viaduct::cpu {

// Bytes of B packed at a time: leaves room in the last-level cache.
inline constexpr int64_t kChunkBytes = int64_t{8} << 20;
// Scratch of a task on its thread's stack, 1,136 KB: the maximum for blockings.
inline constexpr int64_t kMaxSums = 96 * 1024;        // FP32, rows × columns of a block
inline constexpr int64_t kMaxA = 512 * 1024;          // bytes, rows × depth
inline constexpr int64_t kMaxStrips = 192 * 1024;     // bytes, columns that a task packs × depth
inline constexpr int64_t kMaxTermStrips = 32 * 1024;  // bytes, of a term: columns × depth
inline constexpr int64_t kMaxRows = 256;              // of a block
// Minimum number of blocks before they grow: work for many threads, and short waits for the last of
// them.
inline constexpr int64_t kWantedBlocks = 16, kWantedOfThread = 4;
inline constexpr int64_t kLeastColumns = 64;

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Cuts `size` into equal pieces of at most `most`, multiples of `unit`; returns the piece.
inline int64_t even_piece(int64_t size, int64_t most, int64_t unit) {
  const int64_t pieces = std::max<int64_t>(1, ceil_div(size, most));
  return std::max<int64_t>(1, ceil_div(ceil_div(size, pieces), unit)) * unit;
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
  bool fetches = true;            // the next part of A is prefetched
  bool streams = false;           // C is written past the caches
  bool kept = false;              // a block packs its rows of A once, for all visits

  int64_t visit_steps(int64_t step) const { return std::min(visit, steps - step); }
  /// Tiles of a half of B packed at a time.
  int64_t chunk_tiles() const { return shared ? tile_strips(std::min(chunk, b.width)) * steps : 0; }
  int64_t chunk_bytes() const {
    constexpr int64_t kTileBytes = 1024;
    return halves * chunk_tiles() * kTileBytes;
  }
  int64_t row_blocks() const { return ceil_div(a.width, rows); }
};

/// Columns of a block that packs its strips of B itself: limited by scratch.
template <class Element>
int64_t own_columns(const TileBlocking& blocking) {
  const int64_t most = kMaxStrips / (blocking.depth * static_cast<int64_t>(sizeof(Element)));
  return std::min(blocking.columns, most / (2 * kTileColumns) * (2 * kTileColumns));
}

/// For tiles only the sizes are set.
inline TileSource source_of(const Operand& matrix, bool contracted_first) {
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

/// How blocks are smaller than the blocking has them, so that there are enough of them.
struct SmallerBlocks {
  bool half_rows = false;
  int64_t columns = std::numeric_limits<int64_t>::max();  // at most so many, of both halves
};

/// Bytes of a packed row of the terms' a.
template <class Element>
int64_t term_row_bytes(const GemmArgs& args) {
  int64_t steps = 0;
  for (const GemmTerm& term : args.terms) steps += tile_steps<Element>(term.a.dim(1));
  return steps * kStep<Element> * static_cast<int64_t>(sizeof(Element));
}

template <class Element>
Plan plan_of(const GemmArgs& args, const TileBlocking& blocking, const SmallerBlocks& smaller) {
  Plan plan;
  plan.a = source_of(args.a, args.form == GemmForm::weight_gradient);
  plan.b = source_of(args.b, args.form != GemmForm::forward);
  plan.halves = gates_columns(args) ? 2 : 1;
  plan.fetches = blocking.fetches;
  plan.streams = blocking.streamed_bytes > 0 && args.c.bytes() >= blocking.streamed_bytes &&
                 args.mode == WriteMode::assign && !args.epilogue.forms.any();
  plan.b.width /= plan.halves;
  plan.tiles = !args.b.form().plain();
  const bool one_row = plan.a.width <= blocking.rows;
  plan.shared = !one_row && !plan.tiles;
  int64_t rows = blocking.rows;
  constexpr int64_t kBytes = static_cast<int64_t>(sizeof(Element));
  const int64_t term_row = term_row_bytes<Element>(args);
  const int64_t packed_row = tile_steps<Element>(plan.a.depth) * kStep<Element> * kBytes + term_row;
  // Whole strips of rows are packed.
  plan.kept = (plan.shared || plan.tiles) &&
              std::min(rows, ceil_div(plan.a.width, kTileRows) * kTileRows) * packed_row <=
                  blocking.kept_bytes;
  // The terms' a lies beside that of a visit.
  const int64_t visited_row = std::max<int64_t>(blocking.depth * kBytes, kStep<Element> * kBytes);
  if (term_row > 0 && !plan.kept)
    rows = std::min(rows, kMaxA / (visited_row + term_row) / kTileRows * kTileRows);
  int64_t columns = plan.kept                ? blocking.wide_columns
                    : one_row && !plan.tiles ? own_columns<Element>(blocking)
                                             : blocking.columns;
  columns = std::max(std::min(columns, smaller.columns), kLeastColumns) / plan.halves;
  // Half the rows need no more packing of A; fewer would read too much of B per product.
  if (!one_row && smaller.half_rows) rows = ceil_div(rows / 2, kTileRows) * kTileRows;
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

/// The plans of products that run together: as large blocks as leave enough of them.
template <class Element>
std::vector<Plan> plans_of(std::span<const GemmArgs> products, const TileBlocking& blocking,
                           int threads) {
  std::vector<Plan> plans;
  const int64_t wanted = std::min(kWantedBlocks, kWantedOfThread * threads);
  const auto few_with = [&](const SmallerBlocks& smaller) {
    plans.clear();
    int64_t blocks = 0;
    for (const GemmArgs& product : products) {
      const Plan& plan = plans.emplace_back(plan_of<Element>(product, blocking, smaller));
      blocks += plan.row_blocks() * ceil_div(plan.b.width, plan.columns);
    }
    return blocks < wanted;
  };
  SmallerBlocks smaller;
  if (!few_with(smaller)) return plans;
  // Blocks that keep A become narrower before they become lower: lower ones read B more often.
  for (int64_t columns = blocking.wide_columns / 2; columns > blocking.columns; columns /= 2) {
    smaller.columns = columns;
    if (!few_with(smaller)) return plans;
  }
  smaller.half_rows = true;
  for (smaller.columns = blocking.columns; few_with(smaller) && smaller.columns > kLeastColumns;)
    smaller.columns /= 2;
  return plans;
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

}  // namespace viaduct::cpu
