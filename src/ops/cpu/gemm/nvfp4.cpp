#include "ops/cpu/gemm/nvfp4.h"

#include <algorithm>
#include <bit>

#include "ops/cpu/rows/runs.h"
#include "tensor/hadamard.h"
#include "tensor/nvfp4.h"

namespace viaduct::cpu {
namespace {

static_assert(kNvfp4Group == kRotated && kNvfp4Columns % kNvfp4Group == 0);

/// Rows that are processed together: those of a group, or of a rotation.
constexpr int64_t kRows = kNvfp4Group;

bool row_wise(const OperandForm& form) {
  return form.orientation == Orientation::row_wise;
}

/// Elements that share a scale, as rows and columns of the matrix: 16 or 1.
struct GroupSize {
  explicit GroupSize(const OperandForm& form)
      : rows(row_wise(form) ? form.scales->group.kept : form.scales->group.contracted),
        columns(row_wise(form) ? form.scales->group.contracted : form.scales->group.kept) {}
  int64_t rows, columns;
};

/// The code of the scale of the group of (row, column), and how far the next column group's is.
struct ScalePlace {
  uint8_t* first;
  int64_t step;
};

ScalePlace scale_place(const Operand& operand, int64_t row, int64_t column) {
  const GroupSize group(operand.form());
  const int64_t stride = operand.scales().stride(0);
  const int64_t r = row / group.rows, c = column / group.columns;
  auto* const codes = static_cast<uint8_t*>(operand.scales().raw());
  if (row_wise(operand.form())) return {codes + r * stride + c, 1};
  return {codes + c * stride + r, stride};
}

/// Part of a matrix: at most 16 rows × kNvfp4Columns columns.
struct Block {
  int64_t row, rows, column, columns;
};

/// Calls body(block) on the pool for blocks that cover the matrix.
template <class Body>
void for_blocks(ThreadPool& pool, const Shape& matrix, const Body& body) {
  const int64_t rows = matrix[0], columns = matrix[1];
  if (rows == 0 || columns == 0) return;
  const int64_t chunks = (columns + kNvfp4Columns - 1) / kNvfp4Columns;
  const int64_t bands = (rows + kRows - 1) / kRows;
  const int64_t bands_of_task =
      std::max<int64_t>(1, kRunElements / (kRows * std::min(columns, kNvfp4Columns)));
  pool.run((bands + bands_of_task - 1) / bands_of_task * chunks, [&](int64_t task, int) {
    const int64_t column = task % chunks * kNvfp4Columns;
    const int64_t begin = task / chunks * bands_of_task;
    for (int64_t band = begin; band < std::min(bands, begin + bands_of_task); ++band) {
      body(Block{band * kRows, std::min(kRows, rows - band * kRows), column,
                 std::min(kNvfp4Columns, columns - column)});
    }
  });
}

uint8_t* codes_at(const Tensor& values, int64_t row, int64_t column) {
  return static_cast<uint8_t*>(values.raw()) + row * values.stride(0) + column / 2;
}

/// Rows that the matrix does not have are zeros.
void load_block(const Tensor& matrix, const Block& block, bool rotated, const Nvfp4Kernels& kernels,
                float* rows) {
  const int64_t there = std::min(block.rows, matrix.dim(0) - block.row);
  for (int64_t r = 0; r < there; ++r) {
    kernels.load(row_address(matrix, block.row + r, block.column), matrix.dtype(), block.columns,
                 rows + r * kNvfp4Columns);
  }
  std::fill(rows + there * kNvfp4Columns, rows + kRows * kNvfp4Columns, 0.0f);
  if (rotated) kernels.rotate(rows, block.columns);
}

/// most[c] = the larger of itself and the bits of |row[c]|.
void raise(const float* row, int64_t count, int32_t* most) {
  for (int64_t c = 0; c < count; ++c) {
    const int32_t bits = std::bit_cast<int32_t>(row[c]) & 0x7fffffff;
    most[c] = bits > most[c] ? bits : most[c];
  }
}

/// to[c] = the value of column c's group; groups have 16 columns or one.
void spread(const float* of_groups, int64_t columns, int64_t width, float* to) {
  if (width == 1) {
    std::copy_n(of_groups, columns, to);
    return;
  }
  for (int64_t begin = 0; begin < columns; begin += kNvfp4Group)
    std::fill_n(to + begin, kNvfp4Group, of_groups[begin / kNvfp4Group]);
}

/// divisors[c] = what elements of column c are divided by, of the rows of one group; stores the
/// codes of their scales.
void make_divisors(const Operand& out, const float* rows, const Block& block, float matrix_scale,
                   const Nvfp4Kernels& kernels, float* divisors) {
  alignas(64) int32_t most[kNvfp4Columns] = {};
  for (int64_t r = 0; r < block.rows; ++r) raise(rows + r * kNvfp4Columns, block.columns, most);
  const int64_t width = GroupSize(out.form()).columns;
  const int64_t groups = (block.columns + width - 1) / width;
  // Plain loops, of which compilers make vectors. Columns beyond the last are 0.
  for (int64_t g = 0; width > 1 && g < groups; ++g) {
    int32_t largest = 0;
    for (int64_t c = g * kNvfp4Group; c < (g + 1) * kNvfp4Group; ++c)
      largest = most[c] > largest ? most[c] : largest;
    most[g] = largest;
  }
  alignas(64) uint8_t codes[kNvfp4Columns];
  alignas(64) float of_groups[kNvfp4Columns];
  kernels.make_scales(most, groups, matrix_scale, codes, of_groups);
  const ScalePlace place = scale_place(out, block.row, block.column);
  for (int64_t g = 0; g < groups; ++g) place.first[g * place.step] = codes[g];
  spread(of_groups, block.columns, width, divisors);
}

/// The random bits of a row's columns, in `memory`.
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
  const int64_t group_rows = GroupSize(form).rows;
  for_blocks(pool, args.out.shape(), [&](const Block& block) {
    alignas(64) float rows[kRows * kNvfp4Columns];
    alignas(64) float divisors[kNvfp4Columns];
    alignas(64) uint16_t bits[kNvfp4Columns];
    load_block(args.matrix, block, form.rotated, kernels, rows);
    for (int64_t r = 0; r < block.rows; ++r) {
      const float* const row = rows + r * kNvfp4Columns;
      if (r % group_rows == 0) {
        const Block group{block.row + r, std::min(group_rows, block.rows - r), block.column,
                          block.columns};
        make_divisors(args.out, row, group, matrix_scale, kernels, divisors);
      }
      if (random) draw_row(args.rounding, key, block.row + r, block, kernels, bits);
      kernels.encode(row, divisors, random ? bits : nullptr, block.columns,
                     codes_at(args.out.values(), block.row + r, block.column));
    }
  });
}

void widen_nvfp4(ThreadPool& pool, const Operand& operand, const Tensor& to,
                 const Nvfp4Kernels& kernels) {
  const GroupSize group(operand.form());
  for_blocks(pool, operand.shape(), [&](const Block& block) {
    alignas(64) uint8_t codes[kNvfp4Columns];
    alignas(64) float of_groups[kNvfp4Columns];
    alignas(64) float scales[kNvfp4Columns];
    const int64_t groups = (block.columns + group.columns - 1) / group.columns;
    for (int64_t r = 0; r < block.rows; ++r) {
      if (r % group.rows == 0) {
        const ScalePlace place = scale_place(operand, block.row + r, block.column);
        for (int64_t g = 0; g < groups; ++g) codes[g] = place.first[g * place.step];
        kernels.read_scales(codes, groups, of_groups);
        spread(of_groups, block.columns, group.columns, scales);
      }
      kernels.widen(codes_at(operand.values(), block.row + r, block.column), scales, block.columns,
                    to.data<bfloat16>() + (block.row + r) * to.stride(0) + block.column);
    }
  });
}

int32_t rotated_magnitude(const Tensor& matrix, int64_t row, int64_t rows_there,
                          const Nvfp4Kernels& kernels) {
  alignas(64) float rows[kRows * kNvfp4Columns];
  alignas(64) int32_t most[kNvfp4Columns] = {};
  for (int64_t column = 0; column < matrix.dim(1); column += kNvfp4Columns) {
    const Block block{row, rows_there, column, std::min(kNvfp4Columns, matrix.dim(1) - column)};
    load_block(matrix, block, true, kernels, rows);
    for (int64_t r = 0; r < kRows; ++r) raise(rows + r * kNvfp4Columns, block.columns, most);
  }
  return *std::max_element(most, most + kNvfp4Columns);
}

}  // namespace viaduct::cpu
