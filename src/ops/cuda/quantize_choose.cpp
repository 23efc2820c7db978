// Choices for quantized operands on a GPU: their conversion to FP8, magnitudes, delayed scaling. No
// product reads them yet (`gemm_forms` is empty).

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/quantize.h"

namespace viaduct::cuda {
namespace {

bool has_kernel(const OperandForm& form) {
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
                "convert_operand: {} makes row-major e4m3 and e5m2 with scales of f32, bf16 and "
                "f16, not {} of {}",
                traits.name, describe(args.out.form()), dtype_name(dtype));
  Choice choice;
  choice.kernel = "quantize";
  choice.cost.bytes_read = args.matrix.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

Choice choose_magnitude(const LargestMagnitudeArgs& args, const Traits& traits) {
  VIADUCT_CHECK(DeviceError, !args.rotated,
                "largest_magnitude: {} has no kernel for rotated matrices yet", traits.name);
  Choice choice;
  choice.kernel = "magnitudes";
  choice.launches = 2;
  choice.workspace_bytes = kMagnitudeBlocks * static_cast<int64_t>(sizeof(uint32_t));
  add_vector_flops(choice.cost, args.matrix.dtype(), static_cast<double>(args.matrix.elements()));
  choice.cost.bytes_read = args.matrix.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
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
  add_entry(table.largest_magnitude, choose_magnitude);
  add_entry(table.note_amax, choose_history<NoteAmaxArgs>);
  add_entry(table.choose_amax, choose_history<ChooseAmaxArgs>);
}

}  // namespace viaduct::cuda
