// Choices for quantized operands on a GPU: their conversion to FP8 and NVFP4, codes of parts of
// NVFP4 weights, magnitudes, delayed scaling.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/nvfp4.h"
#include "ops/cuda/kernels/quantize.h"

namespace viaduct::cuda {
namespace {

/// Row-major e2m1 with E4M3 scales of 16 elements along the contracted dim or of 16 × 16; rotated
/// only if column-wise.
bool is_nvfp4(const OperandForm& form) {
  const OperandExtent line{1, 16}, square{16, 16};
  return form.layout == kRowMajor && form.element == DType::e2m1x2 && form.scales &&
         form.scales->dtype == DType::e4m3 &&
         (form.scales->group == line || form.scales->group == square) &&
         (!form.rotated ||
          (form.orientation == Orientation::column_wise && form.scales->group == line));
}

bool has_kernel(const OperandForm& form) {
  if (is_nvfp4(form)) return true;
  if (form.layout != kRowMajor || form.rotated || !form.scales) return false;
  if (form.element != DType::e4m3 && form.element != DType::e5m2) return false;
  const bool whole = has_one_scale(form);
  if (form.scales->dtype == DType::f32 && whole) return true;
  const OperandExtent& group = form.scales->group;
  const int64_t columns = form.orientation == Orientation::row_wise ? group.contracted : group.kept;
  const bool fits = columns >= 32 || columns == 1 || columns == 2 || columns == 4 || columns == 8 ||
                    columns == 16;
  return !whole && fits && (form.scales->dtype == DType::f32 || form.scales->dtype == DType::e8m0);
}

Choice choose_convert(const ConvertOperandArgs& args, const Traits& traits) {
  const DType dtype = args.matrix.dtype();
  VIADUCT_CHECK(DeviceError,
                has_kernel(args.out.form()) &&
                    (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16),
                "convert_operand: {} makes row-major e4m3 and e5m2 with scales, and e2m1 with E4M3 "
                "scales of 16, of f32, bf16 and f16, not {} of {}",
                traits.name, describe(args.out.form()), dtype_name(dtype));
  VIADUCT_CHECK(DeviceError, args.rounding.features.size() <= RandomBits::kMostRuns,
                "convert_operand: {} rounds columns of up to {} runs of features, found {}",
                traits.name, RandomBits::kMostRuns, args.rounding.features.size());
  Choice choice;
  choice.kernel = is_nvfp4(args.out.form()) ? "quantize_nvfp4" : "quantize";
  choice.cost.bytes_read = args.matrix.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

Choice choose_expand(const ExpandOperandArgs& args, const Traits& traits) {
  VIADUCT_CHECK(DeviceError, has_kernel(args.operand.form()),
                "expand_operand: {} reads row-major e4m3 and e5m2, not {}", traits.name,
                describe(args.operand.form()));
  Choice choice;
  choice.kernel = "expand";
  choice.cost.bytes_read = args.operand.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

Choice choose_magnitude(const LargestMagnitudeArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "magnitudes";
  choice.launches = 2;
  const int64_t matrices = std::max<int64_t>(1, args.out.dim(0));
  choice.workspace_bytes =
      matrices * magnitude_blocks(matrices) * static_cast<int64_t>(sizeof(uint32_t));
  add_vector_flops(choice.cost, args.matrix.dtype(), static_cast<double>(args.matrix.elements()));
  choice.cost.bytes_read = args.matrix.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

template <class Args>
Choice choose_square(const Args& args, const Traits&) {
  return choose_kernel("squares", args);
}

/// No launch yet: a run that needs one is refused with the kernel's name.
template <class Args>
Choice choose_nf4(const Args& args, const Traits&) {
  return choose_kernel("nf4", args);
}

/// Likewise.
Choice choose_kernel_of_blocks(const DequantizeBlocksArgs& args, const Traits&) {
  return choose_kernel("blocks", args);
}

/// A few numbers for each tensor.
template <class Args>
Choice choose_history(const Args& args, const Traits&) {
  Choice choice;
  choice.kernel = "history";
  for_each_tensor(args, [&](const Tensor& tensor) { choice.cost.bytes_read += tensor.bytes(); });
  choice.cost.bytes_written = choice.cost.bytes_read;
  return choice;
}

}  // namespace

void add_quantize(OpTable& table) {
  add_entry(table.convert_operand, choose_convert);
  add_entry(table.expand_operand, choose_expand);
  add_entry(table.largest_magnitude, choose_magnitude);
  add_entry(table.square_magnitudes, choose_square<SquareMagnitudesArgs>);
  add_entry(table.square_scales, choose_square<SquareScalesArgs>);
  add_entry(table.square_codes, choose_square<SquareCodesArgs>);
  add_entry(table.quantize_nf4, choose_nf4<QuantizeNf4Args>);
  add_entry(table.quantize_absmax, choose_nf4<QuantizeAbsmaxArgs>);
  add_entry(table.dequantize_nf4, choose_nf4<DequantizeNf4Args>);
  add_entry(table.dequantize_blocks, choose_kernel_of_blocks);
  add_entry(table.note_amax, choose_history<NoteAmaxArgs>);
  add_entry(table.choose_amax, choose_history<ChooseAmaxArgs>);
}

}  // namespace viaduct::cuda
