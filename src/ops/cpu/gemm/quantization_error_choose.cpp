// Choice and launch on the cpu of the measurements of quantized operands: a task has a part of a
// matrix, and sums it in the order of the contract.

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/error.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm/nvfp4.h"
#include "ops/cpu/gemm/operand_room.h"
#include "ops/cpu/gemm/quantize.h"
#include "ops/cpu/vector_choice.h"
#include "ops/grouped_gemm.h"
#include "ops/quantization_error.h"
#include "tensor/number_formats.h"
#include "tensor/operand_scale.h"

namespace viaduct::cpu {
namespace {

using Sums = std::array<double, kErrorSums>;

/// Sums of nothing.
Sums no_sums() {
  Sums sums{};
  sums[kErrorLeastScale] = std::numeric_limits<double>::infinity();
  return sums;
}

void join(Sums& sums, const Sums& more) {
  for (size_t i = 0; i < kErrorAmax; ++i) sums[i] += more[i];
  for (const size_t i : {size_t{kErrorAmax}, size_t{kErrorMostScale}})
    sums[i] = std::max(sums[i], more[i]);
  sums[kErrorLeastScale] = std::min(sums[kErrorLeastScale], more[kErrorLeastScale]);
}

/// The numbers of an operand's codes, and the scales of its elements.
class Decoded {
 public:
  explicit Decoded(const Operand& operand) : operand_(operand) {
    const OperandForm& form = operand.form();
    halves_ = form.element == DType::e2m1x2;
    for (size_t code = 0; code < numbers_.size(); ++code)
      numbers_[code] = number(*form.element, static_cast<uint8_t>(code));
    row_wise_ = form.orientation == Orientation::row_wise;
    group_ = form.scales->group;
    if (operand.matrix_scale()) matrix_scale_ = operand.matrix_scale().data<float>()[0];
  }
  /// Columns from a multiple of them on that share a scale in any row; 0: all.
  int64_t columns_of_scale() const { return row_wise_ ? group_.contracted : group_.kept; }
  float scale(int64_t row, int64_t column) const {
    const Tensor& scales = operand_.scales();
    if (has_one_scale(operand_.form())) return scales.data<float>()[0];
    const int64_t kept = (row_wise_ ? row : column) / group_.kept;
    const int64_t contracted = (row_wise_ ? column : row) / group_.contracted;
    const int64_t at = kept * scales.stride(0) + contracted;
    if (scales.dtype() == DType::f32) return scales.data<float>()[at];
    if (scales.dtype() == DType::e8m0) return static_cast<float>(scales.data<float8_e8m0>()[at]);
    return static_cast<float>(scales.data<float8_e4m3>()[at]) * matrix_scale_;
  }
  float number(int64_t row, int64_t column) const {
    const auto* codes =
        static_cast<const uint8_t*>(operand_.values().raw()) + row * operand_.values().stride(0);
    if (!halves_) return numbers_[codes[column]];
    return numbers_[column % 2 == 0 ? codes[column / 2] & 15 : codes[column / 2] >> 4];
  }
  double largest() const { return largest_element(*operand_.form().element); }

 private:
  static float number(DType element, uint8_t code) {
    if (element == DType::e4m3) return static_cast<float>(std::bit_cast<float8_e4m3>(code));
    if (element == DType::e5m2) return static_cast<float>(std::bit_cast<float8_e5m2>(code));
    float4_e2m1 half;
    half.bits = code & 15;
    return static_cast<float>(half);
  }

  const Operand& operand_;
  std::array<float, 256> numbers_;
  bool halves_, row_wise_;
  OperandExtent group_;
  float matrix_scale_ = 1;
};

/// The two sums whose order is fixed.
struct Lane {
  double square = 0, error_square = 0;
};

/// The sums of a row of lanes, added in pairs.
Lane joined(std::array<Lane, kErrorLanes> lanes) {
  for (size_t distance = kErrorLanes / 2; distance > 0; distance /= 2) {
    for (size_t lane = 0; lane < distance; ++lane) {
      lanes[lane].square += lanes[lane + distance].square;
      lanes[lane].error_square += lanes[lane + distance].error_square;
    }
  }
  return lanes[0];
}

/// Adds a run of columns of a row to a lane.
template <class T>
void add_run(const T* x_of_row, const Decoded& decoded, int64_t row, int64_t begin, int64_t end,
             Lane& lane, Sums& sums) {
  const bool one_scale = decoded.columns_of_scale() % kErrorRun == 0;
  const double largest = decoded.largest();
  float scale = decoded.scale(row, begin);
  for (int64_t c = begin; c < end; ++c) {
    const auto x = static_cast<float>(x_of_row[c]);
    if (!std::isfinite(x)) {
      sums[kErrorNotFinite] += 1;
      continue;
    }
    if (!one_scale) scale = decoded.scale(row, c);
    const float value = decoded.number(row, c) * scale;
    const double exact = x, error = static_cast<double>(value) - exact, magnitude = std::abs(exact);
    lane.square += exact * exact;
    lane.error_square += error * error;
    sums[kErrorNonzero] += x != 0 ? 1 : 0;
    sums[kErrorUnderflows] += x != 0 && value == 0 ? 1 : 0;
    sums[kErrorOverflows] += magnitude > largest * static_cast<double>(scale) ? 1 : 0;
    sums[kErrorAmax] = std::max(sums[kErrorAmax], magnitude);
    if (std::isnan(scale)) continue;
    sums[kErrorLeastScale] = std::min<double>(sums[kErrorLeastScale], scale);
    sums[kErrorMostScale] = std::max<double>(sums[kErrorMostScale], scale);
  }
}

Sums sums_of_part(const Tensor& matrix, const Decoded& decoded, int64_t part, int64_t parts) {
  Sums sums = no_sums();
  const int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  dispatch_floating(matrix.dtype(), [&]<class T>(T) {
    for (int64_t beside = 0; beside < kErrorRows; ++beside) {
      std::array<Lane, kErrorLanes> lanes;
      for (int64_t r = part * kErrorRows + beside; r < rows; r += parts * kErrorRows) {
        const T* row = matrix.data<T>() + r * matrix.stride(0);
        for (int64_t c = 0; c < columns; c += kErrorRun)
          add_run(row, decoded, r, c, std::min<int64_t>(columns, c + kErrorRun),
                  lanes[static_cast<size_t>(c / kErrorRun % kErrorLanes)], sums);
      }
      const Lane all = joined(lanes);
      sums[kErrorSquare] += all.square;
      sums[kErrorErrorSquare] += all.error_square;
    }
  });
  return sums;
}

void add_sums(const Sums& more, int64_t elements, double* to) {
  Sums sums = no_sums();
  if (to[kErrorElements] > 0) std::copy_n(to, kErrorSums, sums.begin());
  Sums counted = more;
  counted[kErrorElements] = static_cast<double>(elements);
  join(sums, counted);
  for (double& sum : sums)
    if (std::isnan(sum)) sum = std::numeric_limits<double>::quiet_NaN();
  if (elements > 0) std::copy_n(sums.begin(), kErrorSums, to);
}

struct Workspace {
  Operand operand;  // of all rows
  Tensor tokens, parts;
  int64_t bytes = 0;
};

Workspace workspace_of(const QuantizationErrorArgs& args, int64_t rows, void* memory) {
  OperandRoom room(static_cast<std::byte*>(memory));
  Workspace workspace;
  const int64_t matrices = std::max<int64_t>(1, args.sums.dim(0));
  workspace.parts =
      room.tensor(DType::f64, {error_parts(args.matrix.dim(0), matrices), kErrorSums});
  if (!args.operand)
    workspace.operand = room.operand(args.form, args.matrix.dtype(), {rows, args.matrix.dim(1)});
  if (args.rounding.defined()) workspace.tokens = room.tensor(DType::i64, {rows});
  workspace.bytes = room.used();
  return workspace;
}

/// The operand of one matrix, which has `matrix` as its rows.
template <CpuIsa kIsa>
Operand operand_of(OpContext& context, const QuantizationErrorArgs& args, int64_t index,
                   const Tensor& matrix, const Workspace& workspace) {
  if (args.operand) return args.operand.member(index);
  ConvertOperandArgs convert{matrix, workspace.operand};
  if (args.amax) convert.amax = args.amax.slice(0, index, 1);
  convert.rounding = args.rounding;
  if (args.offsets && args.rounding.defined())
    convert.rounding = with_tokens_of_rows(rounding_of_matrix(args.rounding, matrix.dim(1), index),
                                           workspace.tokens);
  make_operand(context.device.pool(), convert, kIsa);
  return workspace.operand;
}

template <CpuIsa kIsa>
void launch(OpContext& context, const Choice&, const QuantizationErrorArgs& args, void* memory) {
  const int64_t matrices = args.sums.dim(0), rows = args.matrix.dim(0);
  const int64_t each = rows / std::max<int64_t>(1, matrices);
  const int32_t* offsets = args.offsets ? args.offsets.data<int32_t>() : nullptr;
  for (int64_t m = 0; m < matrices; ++m) {
    const int64_t begin = offsets != nullptr ? offsets[m] : m * each;
    const int64_t end = offsets != nullptr ? offsets[m + 1] : begin + each;
    VIADUCT_CHECK(ShapeError, 0 <= begin && begin <= end && end <= rows,
                  "quantization_error: rows {} to {} of matrix {}, expected rows of {}", begin, end,
                  m, describe(args.matrix));
    if (begin == end) continue;
    const Workspace workspace = workspace_of(args, end - begin, memory);
    const Tensor matrix = args.matrix.slice(0, begin, end - begin);
    const Operand operand = operand_of<kIsa>(context, args, m, matrix, workspace);
    const Decoded decoded(operand);
    const int64_t parts = workspace.parts.dim(0);
    auto* const of_parts = reinterpret_cast<Sums*>(workspace.parts.data<double>());
    context.device.pool().run(parts, [&](int64_t part, int) {
      of_parts[part] = sums_of_part(matrix, decoded, part, parts);
    });
    Sums sums = of_parts[0];
    for (const Sums& part : std::span(of_parts, static_cast<size_t>(parts)).subspan(1))
      join(sums, part);
    add_sums(sums, matrix.elements(), args.sums.data<double>() + m * kErrorSums);
  }
}

Choice choose(const QuantizationErrorArgs& args, const Traits& traits) {
  const OperandForm& form = measured_form(args);
  VIADUCT_CHECK(DeviceError, is_quantized(form) || is_nvfp4(form),
                "quantization_error: {} reads row-major e4m3, e5m2 and e2m1x2 with scales, not {}",
                traits.name, describe(form));
  Choice choice;
  choice.kernel = "quantization_error";
  choice.cost = cost_of(args);
  choice.workspace_bytes = workspace_of(args, args.matrix.dim(0), nullptr).bytes;
  return choice;
}

}  // namespace

void add_quantization_error(OpTable& table, CpuIsa isa) {
  table.quantization_error = {
      choose, of_isa(isa, launch<CpuIsa::portable>, launch<CpuIsa::avx2>, launch<CpuIsa::avx512>)};
}

}  // namespace viaduct::cpu
