#include "ops/cpu/gemm/nvfp4.h"

#include <algorithm>

#include "ops/cpu/rows/runs.h"
#include "tensor/hadamard.h"
#include "tensor/nvfp4.h"

namespace viaduct::cpu {
namespace {

static_assert(kNvfp4Group == kRotated && kNvfp4Rows == kRotated &&
              kNvfp4Columns % kNvfp4Group == 0);

bool row_wise(const OperandForm& form) {
  return form.orientation == Orientation::row_wise;
}

/// Columns of a task, which are widened at once; at most, and a multiple of those of kernels.
constexpr int64_t kTaskColumns = 1024;
static_assert(kTaskColumns % kNvfp4Columns == 0);
/// Groups of so many columns and 16 rows: one for each 16 elements.
constexpr int64_t kMostGroups = kTaskColumns;

/// Elements that share a scale, as rows and columns of the matrix: 16 or 1.
struct GroupSize {
  explicit GroupSize(const OperandForm& form)
      : rows(row_wise(form) ? form.scales->group.kept : form.scales->group.contracted),
        columns(row_wise(form) ? form.scales->group.contracted : form.scales->group.kept) {}
  int64_t rows, columns;
};

/// The code of the scale of the group of (row, column), and how far those of the next columns and
/// of the next rows are.
struct ScalePlace {
  uint8_t* first;
  int64_t step, row_step;
};

ScalePlace scale_place(const Operand& operand, int64_t row, int64_t column) {
  const GroupSize group(operand.form());
  const int64_t stride = operand.scales().stride(0);
  const int64_t r = row / group.rows, c = column / group.columns;
  auto* const codes = static_cast<uint8_t*>(operand.scales().raw());
  if (row_wise(operand.form())) return {codes + r * stride + c, 1, stride};
  return {codes + c * stride + r, stride, 1};
}

/// Part of a matrix: at most 16 rows.
struct Block {
  int64_t row, rows, column, columns;
};

/// Calls body(block) on the pool for blocks of at most `width` columns that cover the matrix.
/// Blocks of a task follow each other along the rows, which memory is read ahead for.
template <class Body>
void for_blocks(ThreadPool& pool, const Shape& matrix, int64_t width, const Body& body) {
  const int64_t rows = matrix[0], columns = matrix[1];
  if (rows == 0 || columns == 0) return;
  const int64_t across = std::min(columns, kTaskColumns);
  const int64_t chunks = (columns + across - 1) / across;
  const int64_t bands = (rows + kNvfp4Rows - 1) / kNvfp4Rows;
  const int64_t bands_of_task = std::max<int64_t>(1, kRunElements / (kNvfp4Rows * across));
  pool.run((bands + bands_of_task - 1) / bands_of_task * chunks, [&](int64_t task, int) {
    const int64_t first = task % chunks * across, last = std::min(columns, first + across);
    const int64_t begin = task / chunks * bands_of_task;
    for (int64_t band = begin; band < std::min(bands, begin + bands_of_task); ++band) {
      const int64_t row = band * kNvfp4Rows, there = std::min(kNvfp4Rows, rows - row);
      for (int64_t column = first; column < last; column += width)
        body(Block{row, there, column, std::min(width, last - column)});
    }
  });
}

uint8_t* codes_at(const Tensor& values, int64_t row, int64_t column) {
  return static_cast<uint8_t*>(values.raw()) + row * values.stride(0) + column / 2;
}

int64_t row_bytes(const Tensor& matrix) {
  return matrix.stride(0) * dtype_bytes(matrix.dtype());
}

/// Rows that the matrix does not have are zeros.
void load_block(const Tensor& matrix, const Block& block, bool rotated, const Nvfp4Kernels& kernels,
                float* to) {
  const int64_t rows = std::max<int64_t>(0, std::min(block.rows, matrix.dim(0) - block.row));
  const void* from = rows > 0 ? row_address(matrix, block.row, block.column) : nullptr;
  kernels.load(from, row_bytes(matrix), matrix.dtype(), rows, block.columns, rotated, to);
}

/// The groups of a block of at most `width` columns: `lines` of them, `in_line` each, `distance`
/// apart in arrays of what belongs to groups. Rows of line l: l, or all.
struct BlockGroups {
  BlockGroups(const OperandForm& form, const Block& block, int64_t width)
      : size(form),
        lines(size.rows == 1 ? block.rows : 1),
        in_line((block.columns + size.columns - 1) / size.columns),
        distance(size.rows == 1 ? width / kNvfp4Group : width) {}

  /// Places in an array of what belongs to groups.
  int64_t places() const { return (lines - 1) * distance + in_line; }
  int64_t of_row(int64_t row) const { return size.rows == 1 ? row * distance : 0; }

  GroupSize size;
  int64_t lines, in_line, distance;
};

/// divisors[g] = what elements of group g are divided by; stores the codes of the scales.
void make_divisors(const Operand& out, const float* rows, const Block& block, float matrix_scale,
                   const Nvfp4Kernels& kernels, float* divisors) {
  static_assert(kNvfp4BlockGroups >= kNvfp4Columns);
  alignas(64) int32_t most[kNvfp4BlockGroups] = {};
  const BlockGroups groups(out.form(), block, kNvfp4Columns);
  if (groups.size.rows == 1) {
    kernels.line_magnitudes(rows, block.rows, block.columns, most);
  } else {
    kernels.column_magnitudes(rows, block.rows, block.columns, most);
    // A plain loop, of which compilers make vectors. Columns beyond the last are 0.
    for (int64_t g = 0; groups.size.columns > 1 && g < groups.in_line; ++g) {
      int32_t largest = 0;
      for (int64_t c = g * kNvfp4Group; c < (g + 1) * kNvfp4Group; ++c)
        largest = most[c] > largest ? most[c] : largest;
      most[g] = largest;
    }
  }
  alignas(64) uint8_t codes[kNvfp4BlockGroups];
  kernels.make_scales(most, groups.places(), matrix_scale, codes, divisors);
  const ScalePlace place = scale_place(out, block.row, block.column);
  for (int64_t line = 0; line < groups.lines; ++line) {
    for (int64_t g = 0; g < groups.in_line; ++g)
      place.first[line * place.row_step + g * place.step] = codes[line * groups.distance + g];
  }
}

/// The random bits of a row's columns, in `memory` of kNvfp4Random elements.
void draw_row(const StochasticRounding& rounding, uint64_t key, int64_t row, const Block& block,
              const Nvfp4Kernels& kernels, uint16_t* memory) {
  alignas(64) uint16_t drawn[kNvfp4Random];
  const auto token = static_cast<uint64_t>(rounding.token_index.data<int64_t>()[row]);
  const int64_t end = block.column + block.columns;
  for (size_t i = 0; i < rounding.features.size(); ++i) {
    const FeatureRun& run = rounding.features[i];
    const int64_t from = std::max(run.begin, block.column);
    const int64_t to =
        i + 1 < rounding.features.size() ? std::min(end, rounding.features[i + 1].begin) : end;
    if (from >= to) continue;
    const uint64_t first = run.first + static_cast<uint64_t>(from - run.begin);
    const auto lead = static_cast<int64_t>(first % 8);
    if (lead == 0) {  // what is written beyond the run, the next one overwrites
      kernels.draw(key, token, first, to - from, memory + (from - block.column));
      continue;
    }
    kernels.draw(key, token, first - static_cast<uint64_t>(lead), to - from + lead, drawn);
    std::copy_n(drawn + lead, to - from, memory + (from - block.column));
  }
}

}  // namespace

bool is_nvfp4(const OperandForm& form) {
  const OperandExtent line{1, kNvfp4Group}, square{kNvfp4Group, kNvfp4Group};
  return form.layout == kRowMajor && form.element == DType::e2m1x2 && form.scales &&
         form.scales->dtype == DType::e4m3 &&
         (form.scales->group == line || form.scales->group == square) &&
         (!form.rotated || (!row_wise(form) && form.scales->group == line));
}

void quantize_nvfp4(ThreadPool& pool, const ConvertOperandArgs& args, const Nvfp4Kernels& kernels) {
  const OperandForm& form = args.out.form();
  const float matrix_scale = nvfp4_matrix_scale(args.amax.data<float>()[0]);
  args.out.matrix_scale().data<float>()[0] = matrix_scale;
  const bool random = args.rounding.defined();
  RandomKey stream = args.rounding.key;
  stream.path_hash += row_wise(form) ? 1 : 2;
  const uint64_t key = philox_key(stream);
  for_blocks(pool, args.out.shape(), kNvfp4Columns, [&](const Block& block) {
    alignas(64) float rows[kNvfp4Rows * kNvfp4Columns];
    alignas(64) float divisors[kNvfp4BlockGroups];
    alignas(64) uint16_t bits[kNvfp4Random];
    const BlockGroups groups(form, block, kNvfp4Columns);
    load_block(args.matrix, block, form.rotated, kernels, rows);
    make_divisors(args.out, rows, block, matrix_scale, kernels, divisors);
    for (int64_t r = 0; r < block.rows; ++r) {
      if (random) draw_row(args.rounding, key, block.row + r, block, kernels, bits);
      kernels.encode(rows + r * kNvfp4Columns, divisors + groups.of_row(r), groups.size.columns,
                     random ? bits : nullptr, block.columns,
                     codes_at(args.out.values(), block.row + r, block.column));
    }
  });
}

void widen_nvfp4(ThreadPool& pool, const Operand& operand, const Tensor& to,
                 const Nvfp4Kernels& kernels) {
  for_blocks(pool, operand.shape(), kTaskColumns, [&](const Block& block) {
    alignas(64) uint8_t codes[kMostGroups] = {};
    alignas(64) float scales[kMostGroups];
    const BlockGroups groups(operand.form(), block, kTaskColumns);
    const ScalePlace place = scale_place(operand, block.row, block.column);
    for (int64_t line = 0; line < groups.lines; ++line) {
      for (int64_t g = 0; g < groups.in_line; ++g)
        codes[line * groups.distance + g] = place.first[line * place.row_step + g * place.step];
    }
    kernels.read_scales(codes, groups.places(), scales);
    for (int64_t r = 0; r < block.rows; ++r) {
      kernels.widen(codes_at(operand.values(), block.row + r, block.column),
                    scales + groups.of_row(r), groups.size.columns, block.columns,
                    to.data<bfloat16>() + (block.row + r) * to.stride(0) + block.column);
    }
  });
}

int32_t rotated_magnitude(const Tensor& matrix, int64_t row, int64_t rows,
                          const Nvfp4Kernels& kernels) {
  return kernels.rotated_magnitude(row_address(matrix, row, 0), row_bytes(matrix), matrix.dtype(),
                                   rows, matrix.dim(1));
}

}  // namespace viaduct::cpu
