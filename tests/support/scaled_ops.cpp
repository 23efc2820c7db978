#include "support/scaled_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "ops/reference/scaled_operand.h"
#include "support/op_testing.h"
#include "support/scaled_device.h"

namespace viaduct::test {
namespace {

constexpr std::string_view kPanels = "panels";
constexpr OperandExtent kPanel{4, 8};

OperandForm panels(Orientation orientation) {
  return {kPanels, orientation, kPanel, {}, ScaleForm{DType::f32, kPanel}};
}
OperandForm contracted_last(Orientation orientation) {
  return {kContractedLast, orientation, {}, {}, ScaleForm{DType::f32, {1, kPanel.contracted}}};
}
OperandForm microscaled(DType element, Orientation orientation) {
  return {kRowMajor, orientation, {}, element, ScaleForm{DType::e8m0, {1, 32}}};
}

/// The dims of a and b that the GEMMs contract.
std::pair<Orientation, Orientation> orientations(GemmForm form) {
  constexpr auto kRows = Orientation::row_wise, kColumns = Orientation::column_wise;
  if (form == GemmForm::forward) return {kRows, kRows};
  return {form == GemmForm::data_gradient ? kRows : kColumns, kColumns};
}

template <ScaledValues kValues>
GemmForms forms(const GemmRequest& request, const Traits&) {
  if (request.dtype == DType::f64) return {};
  const auto [a, b] = orientations(request.form);
  if (kValues != ScaledValues::exact) {
    const DType element = kValues == ScaledValues::mxfp8 ? DType::e4m3 : DType::i8;
    return {microscaled(element, a), microscaled(element, b)};
  }
  const bool weight = request.form != GemmForm::weight_gradient;
  return {contracted_last(a),
          weight && request.run % kPanel.kept == 0 ? panels(b) : contracted_last(b)};
}

/// Index of element (i along kept, k along contracted) in the values of an operand.
int64_t place(const Operand& operand, int64_t i, int64_t k) {
  const Tensor& values = operand.values();
  if (operand.form().layout == kContractedLast) return i * values.stride(0) + k;
  return i / kPanel.kept * values.stride(0) + k / kPanel.contracted * values.stride(1) +
         k % kPanel.contracted * kPanel.kept + i % kPanel.kept;
}

float scale_of(float amax) {
  // Values of at most 1/4, so that reading them without their scale gives large errors.
  const int exponent = amax > 0 && std::isfinite(amax) ? std::ilogb(amax) + 3 : 0;
  return std::ldexp(1.0f, std::clamp(exponent, -100, 100));
}

/// Calls f(row, column, i, k) for every element of the matrix.
template <class F>
void for_elements(const Operand& operand, F&& f) {
  const bool rows = operand.form().orientation == Orientation::row_wise;
  for (int64_t r = 0; r < operand.dim(0); ++r)
    for (int64_t c = 0; c < operand.dim(1); ++c) f(r, c, rows ? r : c, rows ? c : r);
}

double& scale_at(const Operand& operand, std::vector<double>& scales, int64_t i, int64_t k) {
  const OperandExtent& group = operand.form().scales->group;
  return scales[static_cast<size_t>(i / group.kept * operand.scales().dim(1) +
                                    k / group.contracted)];
}

void scale_exactly(const ConvertOperandArgs& args) {
  const Operand& out = args.out;
  std::vector<double> scales(static_cast<size_t>(out.scales().elements()));
  for_elements(out, [&](int64_t r, int64_t c, int64_t i, int64_t k) {
    double& amax = scale_at(out, scales, i, k);
    amax = std::max(amax, std::abs(element(args.matrix, r * out.dim(1) + c)));
  });
  for (double& scale : scales) scale = scale_of(static_cast<float>(scale));
  set_values(out.scales(), scales);
  const Tensor flat = out.values().view({out.values().elements()});
  // Poisoned, so that reads of a tile's padding are detected.
  set_values(flat, std::vector<double>(static_cast<size_t>(flat.elements()),
                                       std::numeric_limits<double>::quiet_NaN()));
  for_elements(out, [&](int64_t r, int64_t c, int64_t i, int64_t k) {
    set_element(flat, place(out, i, k),
                element(args.matrix, r * out.dim(1) + c) / scale_at(out, scales, i, k));
  });
}

double scaled_value(const Operand& operand, int64_t i, int64_t k) {
  const Tensor& values = operand.values();
  double value = 0;
  const bool known = dispatch_floating(values.dtype(), [&]<class T>(T) {
    value = static_cast<double>(static_cast<float>(values.data<T>()[place(operand, i, k)]));
  });
  VIADUCT_CHECK(DeviceError, known, "scaled device: cannot read {}", describe(operand));
  const OperandExtent& group = operand.form().scales->group;
  const Tensor& scales = operand.scales();
  return value * scales.data<float>()[i / group.kept * scales.stride(0) + k / group.contracted];
}

/// Writes the matrix of an operand to `out`, in its own format.
void unscale(const Operand& operand, const Tensor& out) {
  if (operand.form().element) {
    const Tensor wide = reference::dequantized(operand);
    for (int64_t i = 0; i < out.elements(); ++i) set_element(out, i, element(wide, i));
    return;
  }
  for_elements(operand, [&](int64_t r, int64_t c, int64_t i, int64_t k) {
    set_element(out, r * out.dim(1) + c, scaled_value(operand, i, k));
  });
}

/// A choice's plan for its launch: the cpu's choice for the matrices, and their offsets in the
/// device's scratch.
struct Plan {
  GemmForm form;
  Choice inner;
  int64_t b_offset = 0, bytes = 0;
};

int64_t aligned(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// A tensor over memory owned elsewhere, or without memory.
Tensor at(void* memory, DType dtype, const Shape& shape) {
  const int64_t bytes = shape.elements() * dtype_bytes(dtype);
  return {std::make_shared<Storage>(memory, bytes, nullptr), dtype, shape};
}

GemmArgs with_matrices(const GemmArgs& args, const Plan& plan, std::byte* scratch) {
  GemmArgs matrices = args;
  matrices.a = at(scratch, args.a.dtype(), args.a.shape());
  matrices.b =
      at(scratch == nullptr ? nullptr : scratch + plan.b_offset, args.b.dtype(), args.b.shape());
  return matrices;
}

/// Functions of a table have no state.
template <CpuIsa kIsa>
const OpEntry<GemmArgs>& cpu_gemm() {
  static const OpEntry<GemmArgs> entry = cpu_ops(kIsa, true).gemm;
  return entry;
}

template <CpuIsa kIsa>
Choice choose_gemm(const GemmArgs& args, const Traits& traits) {
  if (args.a.dtype() == DType::f64) return cpu_gemm<kIsa>().choose(args, traits);
  auto plan = std::make_shared<Plan>(Plan{args.form, {}});
  const int64_t element = dtype_bytes(args.a.dtype());
  plan->b_offset = aligned(args.a.shape().elements() * element);
  plan->bytes = plan->b_offset + aligned(args.b.shape().elements() * element);
  plan->inner = cpu_gemm<kIsa>().choose(with_matrices(args, *plan, nullptr), traits);
  Choice choice = plan->inner;
  choice.kernel = "scaled";
  choice.plan = plan;
  return choice;
}

template <CpuIsa kIsa>
void launch_gemm(OpContext& context, const Choice& choice, const GemmArgs& args, void* workspace) {
  if (args.a.dtype() == DType::f64)
    return cpu_gemm<kIsa>().launch(context, choice, args, workspace);
  const Plan& plan = *static_cast<const Plan*>(choice.plan.get());
  VIADUCT_CHECK(DeviceError, plan.form == args.form, "scaled device: the plan of another product");
  auto* const device = dynamic_cast<ScaledScratch*>(&context.device);
  VIADUCT_CHECK(DeviceError, device != nullptr, "scaled ops on another device than theirs");
  const GemmArgs matrices = with_matrices(args, plan, device->scratch(plan.bytes));
  unscale(args.a, matrices.a.tensor());
  unscale(args.b, matrices.b.tensor());
  cpu_gemm<kIsa>().launch(context, plan.inner, matrices, workspace);
}

Choice choose_convert(const ConvertOperandArgs& args, const Traits& traits) {
  const OperandForm& form = args.out.form();
  const Orientation side = form.orientation;
  const bool known = form == panels(side) || form == contracted_last(side) ||
                     form == microscaled(DType::e4m3, side) || form == microscaled(DType::i8, side);
  VIADUCT_CHECK(DeviceError, known, "convert_operand: {} makes no {}", traits.name, describe(form));
  Choice choice;
  choice.kernel = form.element ? "microscaled" : "scaled";
  choice.cost.bytes_read = args.matrix.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

void launch_convert(OpContext&, const Choice&, const ConvertOperandArgs& args, void*) {
  args.out.form().element ? reference::quantize(args) : scale_exactly(args);
}

template <CpuIsa kIsa>
OpEntry<GemmArgs> entry() {
  return {choose_gemm<kIsa>, launch_gemm<kIsa>};
}

OpEntry<GemmArgs> gemm_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::portable:
      return entry<CpuIsa::portable>();
    case CpuIsa::avx2:
      return entry<CpuIsa::avx2>();
    case CpuIsa::avx512:
      return entry<CpuIsa::avx512>();
    case CpuIsa::avx512_bf16:
      return entry<CpuIsa::avx512_bf16>();
    case CpuIsa::amx:
      break;
  }
  return entry<CpuIsa::amx>();
}

}  // namespace

OpTable scaled_ops(ScaledValues values, CpuIsa isa, bool for_simulation) {
  OpTable table = cpu_ops(isa, for_simulation);
  table.traits.name = "scaled";
  table.gemm = gemm_of(isa);
  table.product_terms = false;     // its products read scaled operands alone
  table.produced_forms = nullptr;  // operands are made by `convert_operand` below alone
  table.gemm_forms = values == ScaledValues::exact   ? forms<ScaledValues::exact>
                     : values == ScaledValues::mxfp8 ? forms<ScaledValues::mxfp8>
                                                     : forms<ScaledValues::mxint8>;
  table.convert_operand = {choose_convert, launch_convert};
  return table;
}

}  // namespace viaduct::test
