#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/cpu/optimizer/adafactor_kernels.h"
#include "ops/cpu/optimizer/binned_sum.h"
#include "ops/cpu/optimizer/optimizer_tasks.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {
namespace {

const AdafactorKernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::adafactor_kernels, avx2::adafactor_kernels,
                    avx512::adafactor_kernels);
}

// A task is a block of this size: what it finds of rows and columns stays in the first-level cache
// until the end, when it is merged with that of the others.
constexpr int64_t kRows = 128, kColumns = 1024;

/// A block of a piece, and where it lies in the matrix.
struct Block {
  const AdafactorPiece* piece = nullptr;
  int64_t first_row = 0, first_column = 0, rows = 0, columns = 0;  // in the piece

  int64_t row_place() const { return piece->matrix.place + piece->row + first_row; }
  int64_t column_place() const { return piece->matrix.column_place + piece->column + first_column; }
  AdafactorBlock elements() const {
    return {piece->gradient.data<float>() + first_row * piece->columns + first_column,
            piece->columns, rows, columns};
  }
};

std::vector<Block> blocks_of(const std::vector<AdafactorPiece>& pieces) {
  std::vector<Block> blocks;
  for (const AdafactorPiece& piece : pieces) {
    for (int64_t r = 0; r < piece.rows; r += kRows) {
      for (int64_t c = 0; c < piece.columns; c += kColumns) {
        blocks.push_back(
            {&piece, r, c, std::min(kRows, piece.rows - r), std::min(kColumns, piece.columns - c)});
      }
    }
  }
  return blocks;
}

/// f(block) for all of them.
template <class F>
void for_blocks(OpContext& context, const std::vector<AdafactorPiece>& pieces, F&& f) {
  const std::vector<Block> blocks = blocks_of(pieces);
  context.device.pool().run(static_cast<int64_t>(blocks.size()),
                            [&](int64_t i, int) { f(blocks[static_cast<size_t>(i)]); });
}

/// Largest magnitudes, given as bits, into `limits`; infinity for all that is not finite.
void merge_largest(const int32_t* bits, int64_t count, float* limits) {
  constexpr int32_t kInfinity = 0x7f800000;
  for (int64_t i = 0; i < count; ++i) {
    const auto found = std::bit_cast<float>(std::min(bits[i], kInfinity));
    const std::atomic_ref<float> limit(limits[i]);
    float known = limit.load(std::memory_order_relaxed);
    while (known < found && !limit.compare_exchange_weak(known, found)) {
    }
  }
}

void merge_sums(const double* found, int64_t count, double* sums) {
  for (int64_t i = 0; i < count; ++i) std::atomic_ref<double>(sums[i]).fetch_add(found[i]);
}

/// What a square is multiplied by before it is rounded: `terms` of them, each at most limit², then
/// add up to less than 2^52. 0 for a limit of 0.
double unit_of(float limit, int64_t terms) {
  if (limit == 0) return 0;
  if (!std::isfinite(limit)) return std::numeric_limits<double>::quiet_NaN();
  int exponent = 0;
  std::frexp(static_cast<double>(limit) * limit, &exponent);  // limit² < 2^exponent
  const int bits = 51 - std::bit_width(static_cast<uint64_t>(terms));
  return std::ldexp(1.0, bits - exponent);
}

template <CpuIsa isa, class Args>
Choice choose(const Args& args, const Traits&) {
  Choice choice = vector_choice("adafactor", isa, DType::f32);
  choice.cost = cost_of(args);
  return choice;
}

void launch_limits(OpContext& context, const Choice& choice, const AdafactorLimitsArgs& args,
                   void*) {
  auto* limits = args.limits.data<float>();
  for_blocks(context, args.pieces, [&](const Block& block) {
    int32_t rows[kRows] = {}, columns[kColumns] = {};
    kernels(choice).largest(block.elements(), rows, columns);
    merge_largest(rows, block.rows, limits + block.row_place());
    merge_largest(columns, block.columns, limits + block.column_place());
  });
}

void launch_sums(OpContext& context, const Choice& choice, const AdafactorSumsArgs& args, void*) {
  const auto* limits = args.limits.data<float>();
  auto* sums = args.sums.data<double>();
  for_blocks(context, args.pieces, [&](const Block& block) {
    double row_units[kRows], column_units[kColumns], rows[kRows] = {}, columns[kColumns] = {};
    const AdafactorMatrix& matrix = block.piece->matrix;
    for (int64_t r = 0; r < block.rows; ++r)
      row_units[r] = unit_of(limits[block.row_place() + r], matrix.columns);
    for (int64_t c = 0; c < block.columns; ++c)
      column_units[c] = unit_of(limits[block.column_place() + c], matrix.rows);
    kernels(choice).sums(block.elements(), row_units, column_units, rows, columns);
    merge_sums(rows, block.rows, sums + block.row_place());
    merge_sums(columns, block.columns, sums + block.column_place());
  });
}

void launch_moments(OpContext& context, const Choice&, const AdafactorMomentsArgs& args, void*) {
  if (scalar_of(args.scalars, StepScalar::skip) != 0) return;
  const double clip = scalar_of(args.scalars, StepScalar::clip_factor);
  const double share = std::pow(scalar_of(args.scalars, StepScalar::update), args.decay_rate);
  const auto* limits = args.limits.data<float>();
  const auto* sums = args.sums.data<double>();
  auto *moments = args.moments.data<float>(), *factors = args.factors.data<float>();
  const auto move = [&](int64_t place, int64_t count, int64_t terms) {
    double total = 0;
    for (int64_t i = place; i < place + count; ++i) {
      const double unit = unit_of(limits[i], terms);
      const double sum = unit == 0 ? 0 : sums[i] / unit;
      const double mean = clip * clip * sum / static_cast<double>(terms) + args.epsilon1;
      moments[i] = static_cast<float>(moments[i] + share * (mean - moments[i]));
      total += moments[i];
    }
    return total / static_cast<double>(count);
  };
  context.device.pool().run(static_cast<int64_t>(args.matrices.size()), [&](int64_t m, int) {
    const AdafactorMatrix& matrix = args.matrices[static_cast<size_t>(m)];
    const double mean = move(matrix.place, matrix.rows, matrix.columns);
    move(matrix.column_place, matrix.columns, matrix.rows);
    for (int64_t i = matrix.place; i < matrix.place + matrix.rows; ++i)
      factors[i] = static_cast<float>(std::sqrt(mean / moments[i]));
    for (int64_t i = matrix.column_place; i < matrix.column_place + matrix.columns; ++i)
      factors[i] = static_cast<float>(1 / std::sqrt(moments[i]));
  });
}

/// f(row, place of its first element in the piece) for the rows of a piece, cut into at most
/// kColumns · 16 elements.
template <class F>
void for_rows(OpContext& context, const AdafactorPiece& piece, const Tensor& factors,
              const Tensor& second, float clip, F&& f) {
  constexpr int64_t kTask = 16 * kColumns;
  const int64_t in_row = (piece.columns + kTask - 1) / kTask;
  const int64_t rows = std::max<int64_t>(1, kTask / piece.columns);  // of a task
  const int64_t tasks = (piece.rows + rows - 1) / rows * in_row;
  context.device.pool().run(tasks, [&](int64_t task, int) {
    const int64_t first = task / in_row * rows, last = std::min(piece.rows, first + rows);
    const int64_t begin = task % in_row * kTask, end = std::min(piece.columns, begin + kTask);
    for (int64_t r = first; r < last; ++r) {
      const int64_t at = r * piece.columns + begin;
      AdafactorRow row{piece.gradient.data<float>() + at, end - begin, clip};
      if (second) {
        row.second = second.data<float>() + at;
      } else {
        const auto* of = factors.data<float>();
        row.row_factor = of[piece.matrix.place + piece.row + r];
        row.column_factors = of + piece.matrix.column_place + piece.column + begin;
      }
      f(row, at);
    }
  });
}

void launch_direction(OpContext& context, const Choice& choice, const AdafactorDirectionArgs& args,
                      void*) {
  auto* out = args.out.data<float>();
  if (scalar_of(args.scalars, StepScalar::skip) != 0) {
    std::fill_n(out, args.out.elements(), 0.0f);
    return;
  }
  const auto clip = static_cast<float>(scalar_of(args.scalars, StepScalar::clip_factor));
  const auto share =
      static_cast<float>(std::pow(scalar_of(args.scalars, StepScalar::update), args.decay_rate));
  const auto epsilon = static_cast<float>(args.epsilon1);
  for_rows(context, args.piece, args.factors, args.second, clip,
           [&](const AdafactorRow& row, int64_t at) {
             if (args.second) {
               auto* second = args.second.data<float>() + at;
               kernels(choice).second({row.gradient, second, row.count, clip, share, epsilon});
             }
             kernels(choice).direction(row, out + at);
           });
}

/// The root of the mean square of `elements` values whose squares are in `state`.
double root_mean_square(const Tensor& state, int64_t elements) {
  return std::sqrt(value_of(read_sum(state.data<double>())) / static_cast<double>(elements));
}

void launch_update(OpContext& context, const Choice& choice, const AdafactorUpdateArgs& args,
                   void*) {
  if (scalar_of(args.scalars, StepScalar::skip) != 0) return;
  const auto clip = static_cast<float>(scalar_of(args.scalars, StepScalar::clip_factor));
  const double most = 1 / std::sqrt(scalar_of(args.scalars, StepScalar::update));
  for (const AdafactorUpdatePiece& of : args.pieces) {
    const double lr = scalar_of(args.scalars, of.learning_rate);
    const double decay = of.weight_decay * scalar_of(args.scalars, StepScalar::weight_decay_factor);
    double step = args.relative_step ? std::min(lr, most) : lr;
    if (of.master_squares)
      step *= std::max(args.epsilon2, root_mean_square(of.master_squares, of.elements));
    const double size = root_mean_square(of.direction_squares, of.elements) / args.clip_threshold;
    step /= std::max(1.0, size);
    AdafactorUpdateRun run{nullptr, nullptr, of.weight ? of.weight.dtype() : DType::f32,
                           static_cast<float>(lr * decay), static_cast<float>(step)};
    const int64_t weight_bytes = of.weight ? dtype_bytes(of.weight.dtype()) : 0;
    for_rows(context, of.piece, args.factors, of.second, clip,
             [&](const AdafactorRow& row, int64_t at) {
               AdafactorUpdateRun here = run;
               here.master = of.master.data<float>() + at;
               if (of.weight) here.weight = static_cast<char*>(of.weight.raw()) + at * weight_bytes;
               kernels(choice).update(row, here);
             });
  }
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.adafactor_limits = {choose<isa, AdafactorLimitsArgs>, launch_limits};
  table.adafactor_sums = {choose<isa, AdafactorSumsArgs>, launch_sums};
  table.adafactor_moments = {choose<isa, AdafactorMomentsArgs>, launch_moments};
  table.adafactor_direction = {choose<isa, AdafactorDirectionArgs>, launch_direction};
  table.adafactor_update = {choose<isa, AdafactorUpdateArgs>, launch_update};
}

}  // namespace

void add_adafactor(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill<CpuIsa::portable>, fill<CpuIsa::avx2>, fill<CpuIsa::avx512>)(table);
}

}  // namespace viaduct::cpu
