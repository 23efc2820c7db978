#include "ops/cpu/gemm/gemm_tiles.h"

#include <algorithm>

#include "ops/cpu/gemm/gemm_plan.h"

namespace viaduct::cpu {
namespace {

// Strips per packing task: from a source whose rows run along the contracted dim it reads two cache
// lines of every row.
constexpr int64_t kPackStrips = 4;
// Columns of a block that are multiplied and stored at a time: more if an epilogue's kernel has a
// small cost per row, most if the kernel does little.
constexpr int64_t kRunColumns = 64, kActivatedColumns = 128, kResidualColumns = 768;

int64_t run_columns(const GemmArgs& args) {
  if (args.epilogue.residual) return kResidualColumns;
  return args.epilogue.any() ? kActivatedColumns : kRunColumns;
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

/// The part of A that a block at `row` packs for its visit at `step`.
template <class Element>
TileSource visited(const Plan& plan, int64_t row, int64_t step) {
  return part<Element>(plan.a, row, std::min(plan.rows, plan.a.width - row), step,
                       plan.visit_steps(step));
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

/// A block of C, and how a thread computes it.
template <class Element>
class Block {
 public:
  /// `row` of C and `column` of the chunk.
  Block(const Task<Element>& task, int64_t row, int64_t column)
      : task_(task),
        row_(row),
        column_(column),
        rows_(std::min(task.plan.rows, task.plan.a.width - row)),
        columns_(std::min(task.plan.columns, task.chunks[0].width - column)) {
    const GemmArgs& args = task.args;
    direct_ = args.c.dtype() == DType::f32 && args.mode == WriteMode::assign && !args.bias &&
              !args.epilogue.any() && args.terms.empty() && task.factor == 1 &&
              rows_ % kTileRows == 0 && columns_ % kTileColumns == 0;
    run_ = std::min(run_columns(args), columns_);
    if (task.plan.kept) run_ = std::min(run_, kMaxSums / (rows_up() * task.plan.halves) / 32 * 32);
  }

  /// `next`: what the thread's next block packs first, of no depth if there is none.
  void compute(const TileSource& next) {
    {
      const TileScope scope(task_.tiles);
      task_.plan.kept ? run_by_run(next) : visit_by_visit(next);
    }
    // Other threads read what was streamed.
    if (task_.plan.streams) task_.kernels.gemm.end_stream();
  }

 private:
  static constexpr int64_t kElementsOfB = kMaxStrips / static_cast<int64_t>(sizeof(Element));
  static constexpr int64_t kElementsOfA = kMaxA / static_cast<int64_t>(sizeof(Element));
  static constexpr int64_t kElementsOfTerm = kMaxTermStrips / static_cast<int64_t>(sizeof(Element));

  /// The sums of all columns; each visit packs its part of A.
  void visit_by_visit(const TileSource& next) {
    const Plan& plan = task_.plan;
    // At least once: an empty contraction gives zero.
    for (int64_t step = 0; step == 0 || step < plan.steps; step += plan.visit) {
      const bool last = step + plan.visit >= plan.steps;
      pack(step, a_strips_);
      if (last) pack_terms(a_strips_ + plan.visit_steps(step) * strips_up() * kTile<Element>);
      find_strips(step);
      const TileSource then = last ? next : visited<Element>(plan, row_, step + plan.visit);
      for (int64_t begin = 0; begin < columns_; begin += run_) {
        prefetch(then, begin);
        if (last) fetch_block(task_.args, block(begin));
        multiply(step, begin, a_strips_);
        if (!last) continue;
        add_terms(begin);
        finish(begin);
      }
    }
  }
  /// The sums of a run of columns at a time, with the A of all visits.
  void run_by_run(const TileSource& next) {
    const Plan& plan = task_.plan;
    for (int64_t step = 0; step < plan.steps; step += plan.visit)
      pack(step, a_strips_ + step * strips_up() * kTile<Element>);
    pack_terms(a_strips_ + plan.steps * strips_up() * kTile<Element>);
    for (int64_t begin = 0; begin < columns_; begin += run_) {
      prefetch(next, begin);
      fetch_block(task_.args, block(begin));
      for (int64_t step = 0; step == 0 || step < plan.steps; step += plan.visit) {
        find_strips(step);
        multiply(step, begin, a_strips_ + step * strips_up() * kTile<Element>);
      }
      add_terms(begin);
      finish(begin);
    }
  }

  int64_t strips_up() const { return tile_strips(rows_); }
  int64_t rows_up() const { return strips_up() * kTileRows; }
  /// First column of a run among the sums, columns of all runs of a half there.
  int64_t at(int64_t begin) const { return task_.plan.kept ? 0 : begin; }
  int64_t summed_columns() const {
    constexpr int64_t kPanel = 2 * kTileColumns;  // products write whole panels
    return task_.plan.kept ? ceil_div(run_, kPanel) * kPanel : task_.plan.columns;
  }

  void pack(int64_t step, Element* to) {
    const Plan& plan = task_.plan;
    task_.tiles.pack_a(visited<Element>(plan, row_, step), to,
                       plan.visit_steps(step) * kTile<Element>);
  }
  void find_strips(int64_t step) {
    const int64_t distance = task_.plan.visit_steps(step) * kTile<Element>;
    for (int64_t half = 0; half < task_.plan.halves; ++half) {
      b_[half] = strips_of(task_, half, column_, columns_, step,
                           b_strips_ + half * tile_strips(columns_) * distance);
    }
  }
  void prefetch(const TileSource& next, int64_t begin) {
    if (next.depth > 0 && task_.plan.fetches) fetch(next, begin / run_, ceil_div(columns_, run_));
  }
  GemmBlock block(int64_t begin) {
    const Plan& plan = task_.plan;
    return {.row = row_,
            .rows = rows_,
            .column = task_.chunks[0].begin + column_ + begin,
            .columns = std::min(run_, columns_ - begin),
            .sums = sums_ + at(begin),
            .up_sums = plan.halves > 1 ? sums_ + summed_columns() + at(begin) : nullptr,
            .stride = plan.halves * summed_columns(),
            .factor = task_.factor,
            .streamed = plan.streams};
  }
  /// The columns of a run from `begin`, one visit.
  void multiply(int64_t step, int64_t begin, const Element* a) {
    const Plan& plan = task_.plan;
    const GemmArgs& args = task_.args;
    TileProductOf<Element> product{.rows = rows_};
    product.steps = plan.visit_steps(step);
    product.a = a;
    product.a_strip = product.steps * kTile<Element>;
    product.accumulate = step > 0;
    product.columns = std::min(run_, columns_ - begin);
    product.more = begin + run_ < columns_;
    product.c_stride = direct_ ? args.c.stride(0) : plan.halves * summed_columns();
    for (int64_t half = 0; half < plan.halves; ++half) {
      product.b = b_[half].first + begin / kTileColumns * b_[half].distance;
      product.b_strip = b_[half].distance;
      product.c = direct_ ? args.c.data<float>() + row_ * args.c.stride(0) + task_.chunks[0].begin +
                                column_ + begin
                          : sums_ + half * summed_columns() + at(begin);
      task_.tiles.product(product);
    }
  }
  /// Calls f(term, step, steps) for the visits of the terms, each of which is one sum.
  template <class F>
  void for_each_term_visit(F&& f) const {
    for (const GemmTerm& term : task_.args.terms) {
      const int64_t steps = tile_steps<Element>(term.a.dim(1));
      for (int64_t step = 0; step < steps; step += kSumSteps)
        f(term, step, std::min(kSumSteps, steps - step));
    }
  }
  /// The rows of a of all terms, visit by visit.
  void pack_terms(Element* to) {
    term_a_ = to;
    for_each_term_visit([&](const GemmTerm& term, int64_t step, int64_t steps) {
      task_.tiles.pack_a(part<Element>(source_of(term.a, false), row_, rows_, step, steps), to,
                         steps * kTile<Element>);
      to += strips_up() * steps * kTile<Element>;
    });
  }
  /// Adds the terms to the sums of a run from `begin`.
  void add_terms(int64_t begin) {
    const Element* a = term_a_;
    for_each_term_visit([&](const GemmTerm& term, int64_t step, int64_t steps) {
      for (int64_t half = 0; half < task_.plan.halves; ++half)
        add_term(term, step, steps, half, begin, a);
      a += strips_up() * steps * kTile<Element>;
    });
  }
  void add_term(const GemmTerm& term, int64_t step, int64_t steps, int64_t half, int64_t begin,
                const Element* a) {
    const int64_t first = task_.chunks[half].begin + column_ + begin;  // of the run, in c
    const TileSource b = source_of(term.b, task_.args.form != GemmForm::forward);
    const int64_t from = std::max(first, term.first_column);
    const int64_t end =
        std::min(first + std::min(run_, columns_ - begin), term.first_column + b.width);
    if (from >= end) return;
    float* const sums = sums_ + half * summed_columns() + at(begin) - first;  // of c's column 0
    TileProductOf<Element> product{.rows = rows_};
    product.steps = steps;
    product.a = a;
    product.a_strip = steps * kTile<Element>;
    product.c_stride = task_.plan.halves * summed_columns();
    product.accumulate = true;
    if (step + steps == tile_steps<Element>(b.depth))
      product.last_units = last_tile_units<Element>(b.depth);
    if (!term.b.form().plain()) {
      product.b_strip = tile_steps<Element>(b.depth) * kTile<Element>;
      product.b = term.b.values().template data<Element>() +
                  (from - term.first_column) / kTileColumns * product.b_strip +
                  step * kTile<Element>;
      product.columns = end - from;
      product.c = sums + from;
      return task_.tiles.product(product);
    }
    product.b = term_b_;
    product.b_strip = steps * kTile<Element>;
    // Products write whole tiles: of columns that begin inside of one, not to the sums.
    const bool aligned = (from - first) % kTileColumns == 0;
    const int64_t most = aligned ? kElementsOfTerm / product.b_strip * kTileColumns : kTileColumns;
    for (int64_t column = from; column < end; column += most) {
      product.columns = std::min(most, end - column);
      task_.tiles.pack_b(part<Element>(b, column - term.first_column, product.columns, step, steps),
                         term_b_, product.b_strip);
      product.c = sums + column;
      aligned ? task_.tiles.product(product) : add_columns(product);
    }
  }
  /// The product of columns of one tile, added where they are.
  void add_columns(TileProductOf<Element> product) {
    alignas(64) float apart[kMaxRows * kTileColumns];
    float* const to = product.c;
    const int64_t stride = product.c_stride;
    product.c = apart;
    product.c_stride = kTileColumns;
    product.accumulate = false;
    task_.tiles.product(product);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t column = 0; column < product.columns; ++column)
        to[row * stride + column] += apart[row * kTileColumns + column];
    }
  }
  void finish(int64_t begin) {
    if (!direct_) finish_block(task_.args, task_.kernels, block(begin));
  }

  const Task<Element>& task_;
  const int64_t row_, column_, rows_, columns_;
  bool direct_ = false;
  int64_t run_ = 0;  // columns multiplied and stored at a time
  Strips<Element> b_[2];
  alignas(64) float sums_[kMaxSums];
  const Element* term_a_ = nullptr;  // strips of the terms' a, among a_strips_
  alignas(64) Element a_strips_[kElementsOfA], b_strips_[kElementsOfB], term_b_[kElementsOfTerm];
};

/// Tasks of several products, numbered one product after the other.
class Numbered {
 public:
  void clear() { ends_.clear(); }
  void add(int64_t tasks) { ends_.push_back(count() + tasks); }
  int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }

  struct Place {
    size_t product;
    int64_t number;  // within the product
  };
  Place at(int64_t index) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    return {static_cast<size_t>(end - ends_.begin()),
            end == ends_.begin() ? index : index - *(end - 1)};
  }

 private:
  std::vector<int64_t> ends_;
};

}  // namespace

template <class Element>
int64_t tile_visit(int64_t depth, const TileBlocking& blocking) {
  return even_piece(tile_steps<Element>(depth), blocking.depth / kStep<Element>, 1);
}

template <class Element>
int64_t tile_workspace_bytes(const GemmArgs& args, const TileBlocking& blocking) {
  return plan_of<Element>(args, blocking, {}).chunk_bytes();
}

template <class Element>
void gemms_on_tiles(ThreadPool& pool, std::span<const GemmArgs> products,
                    const TileBlocking& blocking, const TileKernelsOf<Element>& tiles,
                    const FinishKernels& kernels, void* workspace, float factor) {
  const std::vector<Plan> plans = plans_of<Element>(products, blocking, pool.threads());
  std::vector<Task<Element>> tasks;
  Numbered packing, blocks;
  // A chunk of each product after the other; most have one.
  for (int64_t chunk = 0; chunk == 0 || !tasks.empty(); ++chunk) {
    tasks.clear(), packing.clear(), blocks.clear();
    auto* packed = static_cast<Element*>(workspace);
    for (size_t i = 0; i < plans.size(); ++i) {
      const Plan& plan = plans[i];
      const int64_t column = chunk * plan.chunk;
      if (column >= plan.b.width) continue;
      const int64_t width = std::min(plan.chunk, plan.b.width - column);
      Element* const second = packed + plan.chunk_tiles() * kTile<Element>;
      const Task<Element>& task = tasks.emplace_back(
          Task<Element>{products[i],
                        plan,
                        tiles,
                        kernels,
                        {{packed, column, width}, {second, plan.b.width + column, width}},
                        factor});
      packing.add(plan.shared ? plan.halves * task.chunks[0].tasks(plan) : 0);
      blocks.add(plan.row_blocks() * ceil_div(width, plan.columns));
      packed += plan.halves * plan.chunk_tiles() * kTile<Element>;
    }
    pool.run(packing.count(), [&](int64_t index, int) {
      const auto [of, number] = packing.at(index);
      const Task<Element>& task = tasks[of];
      const int64_t each = task.chunks[0].tasks(task.plan);
      task.chunks[number / each].pack_task(task.plan, tiles, number % each);
    });
    pool.run(blocks.count(), [&](int64_t index, int) {
      const auto [of, number] = blocks.at(index);
      const Plan& plan = tasks[of].plan;
      TileSource next_block;
      if (const int64_t next = index + pool.threads(); next < blocks.count()) {
        const auto [next_of, next_number] = blocks.at(next);
        const Plan& its = tasks[next_of].plan;
        const int64_t row = next_number % its.row_blocks() * its.rows;
        next_block = its.kept ? part<Element>(its.a, row, std::min(its.rows, its.a.width - row), 0,
                                              its.steps)
                              : visited<Element>(its, row, 0);
      }
      Block<Element>(tasks[of], number % plan.row_blocks() * plan.rows,
                     number / plan.row_blocks() * plan.columns)
          .compute(next_block);
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
template void gemms_on_tiles(ThreadPool&, std::span<const GemmArgs>, const TileBlocking&,
                             const TileKernelsOf<bfloat16>&, const FinishKernels&, void*, float);
template void gemms_on_tiles(ThreadPool&, std::span<const GemmArgs>, const TileBlocking&,
                             const TileKernelsOf<float>&, const FinishKernels&, void*, float);

}  // namespace viaduct::cpu
