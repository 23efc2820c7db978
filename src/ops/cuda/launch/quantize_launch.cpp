// Launches of quantized operands.

#include "ops/cuda/kernels/quantize.h"
#include "ops/cuda/launch/launch_args.h"
#include "tensor/number_formats.h"

namespace viaduct::cuda {
namespace {

void launch_convert(OpContext& context, const Choice&, const ConvertOperandArgs& args, void*) {
  const OperandForm& form = args.out.form();
  const Tensor& scales = args.out.scales();
  QuantizedRows rows{rows_of("convert_operand", args.matrix),
                     args.matrix.dim(0),
                     args.matrix.dim(1),
                     static_cast<uint8_t*>(args.out.values().raw()),
                     args.out.values().stride(0),
                     form.element == DType::e5m2};
  const bool powers = scales.dtype() == DType::e8m0;
  rows.scales = powers ? nullptr : scales.data<float>();
  rows.scale_powers = powers ? static_cast<uint8_t*>(scales.raw()) : nullptr;
  if (has_one_scale(form)) {
    rows.amax = args.amax.data<float>();
  } else {
    const OperandExtent& group = form.scales->group;
    const bool row_wise = form.orientation == Orientation::row_wise;
    rows.group_rows = row_wise ? group.kept : group.contracted;
    rows.group_columns = row_wise ? group.contracted : group.kept;
    // Scales are [groups along kept, groups along contracted].
    rows.scale_row_stride = row_wise ? scales.stride(0) : 1;
    rows.scale_column_stride = row_wise ? 1 : scales.stride(0);
  }
  quantize(rows, stream_of(context));
}

void launch_magnitude(OpContext& context, const Choice&, const LargestMagnitudeArgs& args,
                      void* workspace) {
  largest_magnitude({rows_of("largest_magnitude", args.matrix), args.matrix.dim(0),
                     args.matrix.dim(1), static_cast<uint32_t*>(workspace), args.out.data<float>()},
                    stream_of(context));
}

void launch_note(OpContext& context, const Choice&, const NoteAmaxArgs& args, void*) {
  note_amax(args.amax.data<float>(), args.noted.data<float>(), args.chosen.data<float>(),
            args.out.data<float>(), stream_of(context));
}

void launch_choose(OpContext& context, const Choice&, const ChooseAmaxArgs& args, void*) {
  choose_amax(
      {args.noted.data<float>(), args.history.data<float>(), args.chosen.data<float>(),
       args.history.dim(0), args.history.dim(1), args.most_recent, static_cast<int>(args.margin)},
      stream_of(context));
}

}  // namespace

void add_quantize_launches(OpTable& table) {
  table.convert_operand.launch = launch_convert;
  table.largest_magnitude.launch = launch_magnitude;
  table.note_amax.launch = launch_note;
  table.choose_amax.launch = launch_choose;
}

}  // namespace viaduct::cuda
