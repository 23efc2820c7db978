// Launches of ops on the rows of experts.

#include "ops/cuda/kernels/expert_rows.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {
namespace {

void launch_combine(OpContext& context, const Choice&, const CombineRowsArgs& args, void*) {
  constexpr std::string_view op = "combine_rows";
  combine_rows({rows_of(op, args.rows), rows_of(op, args.out), args.position.data<int32_t>(),
                pointer_of<float>(args.weight), args.out.dim(0), args.out.dim(1),
                args.position.dim(1), args.copies},
               stream_of(context));
}

void launch_combine_backward(OpContext& context, const Choice&, const CombineRowsBackwardArgs& args,
                             void*) {
  constexpr std::string_view op = "combine_rows_backward";
  combine_rows_backward({rows_of(op, args.d_out), rows_of(op, args.rows ? args.rows : args.d_rows),
                         rows_of(op, args.d_rows), args.position.data<int32_t>(),
                         args.weight.data<float>(), pointer_of<float>(args.d_weight),
                         args.d_out.dim(0), args.d_out.dim(1), args.position.dim(1), args.copies},
                        stream_of(context));
}

void launch_dots(OpContext& context, const Choice&, const RowDotsArgs& args, void*) {
  constexpr std::string_view op = "row_dots";
  row_dots({rows_of(op, args.x), rows_of(op, args.y), args.out.data<float>(),
            pointer_of<int32_t>(args.offsets), args.x.dim(0), args.y.dim(0), args.x.dim(1),
            args.mode == WriteMode::accumulate},
           stream_of(context));
}

void launch_combine_weights(OpContext& context, const Choice&,
                            const CombineWeightsBackwardArgs& args, void*) {
  combine_weights_backward(
      {args.dots.data<float>(), args.position.data<int32_t>(), args.weight.data<float>(),
       args.d_weight.data<float>(), args.weight.elements(), args.copies},
      stream_of(context));
}

void launch_bias(OpContext& context, const Choice&, const ExpertBiasArgs& args, void*) {
  constexpr std::string_view op = "expert_bias";
  expert_bias({rows_of(op, args.x), rows_of(op, args.bias), args.offsets.data<int32_t>(),
               args.x.dim(0), args.bias.dim(0), args.x.dim(1)},
              stream_of(context));
}

void launch_bias_backward(OpContext& context, const Choice&, const ExpertBiasBackwardArgs& args,
                          void*) {
  expert_bias_backward({rows_of("expert_bias_backward", args.dy), args.d_bias.data<float>(),
                        args.offsets.data<int32_t>(), args.d_bias.dim(0), args.d_bias.dim(1)},
                       stream_of(context));
}

}  // namespace

void add_expert_launches(OpTable& table) {
  table.combine_rows.launch = launch_combine;
  table.combine_rows_backward.launch = launch_combine_backward;
  table.row_dots.launch = launch_dots;
  table.combine_weights_backward.launch = launch_combine_weights;
  table.expert_bias.launch = launch_bias;
  table.expert_bias_backward.launch = launch_bias_backward;
}

}  // namespace viaduct::cuda
