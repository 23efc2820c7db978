// Launches of quantized operands.

#include "ops/cuda/kernels/expand.h"
#include "ops/cuda/kernels/nvfp4.h"
#include "ops/cuda/kernels/quantize.h"
#include "ops/cuda/launch/launch_args.h"
#include "ops/cuda/launch/random_bits.h"
#include "tensor/number_formats.h"

namespace viaduct::cuda {

RandomBits random_bits(const StochasticRounding& rounding, bool row_wise) {
  RandomBits random;
  if (!rounding.defined()) return random;
  RandomKey stream = rounding.key;
  stream.path_hash += row_wise ? 1 : 2;
  random.key = philox_key(stream);
  random.token_index = rounding.token_index.data<int64_t>();
  for (const FeatureRun& run : rounding.features) {
    random.begin[random.runs] = run.begin;
    random.first[random.runs++] = run.first;
  }
  return random;
}

namespace {

void convert_nvfp4(OpContext& context, const ConvertOperandArgs& args) {
  const OperandForm& form = args.out.form();
  const Tensor &values = args.out.values(), &scales = args.out.scales();
  const bool row_wise = form.orientation == Orientation::row_wise;
  const OperandExtent& group = form.scales->group;
  // Scales are [groups along kept, groups along contracted].
  Nvfp4Rows rows{rows_of("convert_operand", args.matrix), one_matrix(args.matrix.dim(0)),
                 args.matrix.dim(1)};
  rows.rotated = form.rotated;
  rows.amax = args.amax.data<float>();
  rows.matrix_scale = args.out.matrix_scale().data<float>();
  rows.values = static_cast<uint8_t*>(values.raw()), rows.values_stride = values.stride(0);
  rows.scales = static_cast<uint8_t*>(scales.raw());
  rows.scale_row_stride = row_wise ? scales.stride(0) : 1;
  rows.scale_column_stride = row_wise ? 1 : scales.stride(0);
  rows.group_rows = static_cast<int>(row_wise ? group.kept : group.contracted);
  rows.group_columns = static_cast<int>(row_wise ? group.contracted : group.kept);
  rows.random = random_bits(args.rounding, row_wise);
  quantize_nvfp4(rows, stream_of(context));
}

void launch_convert(OpContext& context, const Choice&, const ConvertOperandArgs& args, void*) {
  const OperandForm& form = args.out.form();
  if (form.element == DType::e2m1x2) return convert_nvfp4(context, args);
  const Tensor& scales = args.out.scales();
  QuantizedRows rows{rows_of("convert_operand", args.matrix),
                     one_matrix(args.matrix.dim(0)),
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

void launch_expand(OpContext& context, const Choice&, const ExpandOperandArgs& args, void*) {
  const Operand& operand = args.operand;
  const OperandForm& form = operand.form();
  const Tensor& scales = operand.scales();
  const bool powers = scales.dtype() == DType::e8m0;
  const bool row_wise = form.orientation == Orientation::row_wise;
  const OperandExtent& group = form.scales->group;
  // Scales are [groups along kept, groups along contracted].
  expand({.codes = static_cast<const uint8_t*>(operand.values().raw()),
          .rows = args.out.dim(0),
          .columns = args.out.dim(1),
          .stride = operand.values().stride(0),
          .e5m2 = form.element == DType::e5m2,
          .scales = powers ? nullptr : scales.data<float>(),
          .scale_powers = powers ? static_cast<const uint8_t*>(scales.raw()) : nullptr,
          .group_rows = row_wise ? group.kept : group.contracted,
          .group_columns = row_wise ? group.contracted : group.kept,
          .scale_row_stride = row_wise ? scales.stride(0) : 1,
          .scale_column_stride = row_wise ? 1 : scales.stride(0),
          .out = args.out.raw()},
         stream_of(context));
}

void launch_magnitude(OpContext& context, const Choice&, const LargestMagnitudeArgs& args,
                      void* workspace) {
  const int64_t matrices = args.out.dim(0), rows = args.matrix.dim(0);
  if (matrices == 0) return;
  largest_magnitude({rows_of("largest_magnitude", args.matrix),
                     {rows, rows / matrices, matrices, pointer_of<int32_t>(args.offsets)},
                     args.matrix.dim(1),
                     static_cast<uint32_t*>(workspace),
                     args.out.data<float>(),
                     args.rotated},
                    stream_of(context));
}

template <class Args>
SquarePart part_of(std::string_view op, const Args& args) {
  return {vector_of(op, args.part), args.begin, args.part.dim(0), args.columns};
}

void launch_square_magnitudes(OpContext& context, const Choice&, const SquareMagnitudesArgs& args,
                              void*) {
  SquarePart part = part_of("square_magnitudes", args);
  part.magnitudes = args.magnitudes.data<float>();
  square_magnitudes(part, stream_of(context));
}

void launch_square_scales(OpContext& context, const Choice&, const SquareScalesArgs& args, void*) {
  square_scales({args.magnitudes.data<float>(), args.amax.data<float>(), args.scales.elements(),
                 static_cast<uint8_t*>(args.scales.raw()), args.matrix_scale.data<float>()},
                stream_of(context));
}

void launch_square_codes(OpContext& context, const Choice&, const SquareCodesArgs& args, void*) {
  SquarePart part = part_of("square_codes", args);
  part.scales = static_cast<const uint8_t*>(args.scales.raw());
  part.matrix_scale = args.matrix_scale.data<float>();
  part.codes = static_cast<uint8_t*>(args.codes.raw());
  square_codes(part, stream_of(context));
}

void launch_note(OpContext& context, const Choice&, const NoteAmaxArgs& args, void*) {
  note_amax({args.amax.data<float>(), args.chosen.data<float>(), args.noted.data<float>(),
             args.out.data<float>(), args.amax.elements()},
            stream_of(context));
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
  table.expand_operand.launch = launch_expand;
  table.largest_magnitude.launch = launch_magnitude;
  table.square_magnitudes.launch = launch_square_magnitudes;
  table.square_scales.launch = launch_square_scales;
  table.square_codes.launch = launch_square_codes;
  table.note_amax.launch = launch_note;
  table.choose_amax.launch = launch_choose;
}

}  // namespace viaduct::cuda
