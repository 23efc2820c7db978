// Launches of AdamW, and of optimizer state in its stored formats.

#include "ops/cuda/launch/launch_args.h"
#include "ops/cuda/run_groups.h"

namespace viaduct::cuda {
namespace {

AdamWConstants constants_of(const AdamWArgs& args) {
  const auto slot = [](StepScalar name) { return static_cast<int>(name); };
  return {args.scalars.data<double>(),
          slot(StepScalar::skip),
          slot(StepScalar::clip_factor),
          slot(args.learning_rate),
          slot(StepScalar::weight_decay_factor),
          slot(StepScalar::bias_correction1),
          slot(StepScalar::bias_correction2),
          args.beta1,
          args.beta2,
          args.epsilon,
          args.weight_decay,
          args.learning_rate_multiplier};
}

AdamWRun run_of(const AdamWArgs& args) {
  return {args.master.data<float>(),
          args.first.data<float>(),
          args.second.data<float>(),
          vector_of("adamw", args.gradient),
          vector_of("adamw", args.weight),
          args.master.elements(),
          0};
}

StateFormat state_format(std::string_view op, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return StateFormat::f32;
    case DType::bf16:
      return StateFormat::bf16;
    case DType::f16:
      return StateFormat::f16;
    case DType::e4m3:
      return StateFormat::e4m3;
    case DType::i16:
      return StateFormat::remainder;
    default:
      break;
  }
  fail<DeviceError>("{}: cuda has kernels for state in f32, bf16, f16, e4m3 and i16, not in {}", op,
                    dtype_name(dtype));
}

CodedAdamWRun coded_run_of(const AdamWArgs& args) {
  return {args.master.raw(),
          args.first.raw(),
          args.second.raw(),
          pointer_of<float>(args.master_scales),
          pointer_of<float>(args.first_scales),
          pointer_of<float>(args.second_scales),
          args.gradient.raw(),
          args.weight ? args.weight.raw() : nullptr,
          args.master.elements(),
          0};
}

void launch_coded_adamw(OpContext& context, const AdamWListArgs& args) {
  constexpr std::string_view op = "adamw";
  const AdamWArgs& any = args.runs.front();
  for_launches(args, [&](size_t first, size_t end) {
    CodedAdamWList list{constants_of(args.runs[first]),
                        state_format(op, any.master.dtype()),
                        state_format(op, any.first.dtype()),
                        state_format(op, any.second.dtype()),
                        format_of(op, any.gradient.dtype()),
                        vector_of(op, any.weight).format,
                        0,
                        {}};
    for (size_t i = first; i < end; ++i) list.run[list.runs++] = coded_run_of(args.runs[i]);
    adamw_coded(list, stream_of(context));
  });
}

void launch_adamw(OpContext& context, const Choice&, const AdamWListArgs& args, void*) {
  if (is_coded(args)) return launch_coded_adamw(context, args);
  for_launches(args, [&](size_t first, size_t end) {
    AdamWList list{constants_of(args.runs[first]), 0, {}};
    for (size_t i = first; i < end; ++i) list.run[list.runs++] = run_of(args.runs[i]);
    adamw(list, stream_of(context));
  });
}

StateRun state_run(std::string_view op, const Tensor& values, const Tensor& scales,
                   const Tensor& weights) {
  return {state_format(op, values.dtype()), values.raw(), pointer_of<float>(scales),
          weights ? weights.raw() : nullptr, values.elements()};
}

void launch_expand(OpContext& context, const Choice&, const ExpandStateArgs& args, void*) {
  expand_state(state_run("expand_state", args.values, args.scales, args.weights),
               args.out.data<float>(), stream_of(context));
}

void launch_store(OpContext& context, const Choice&, const StoreStateArgs& args, void*) {
  store_state(state_run("store_state", args.values, args.scales, args.weights),
              pointer_of<float>(args.in), stream_of(context));
}

}  // namespace

void add_optimizer_launches(OpTable& table) {
  table.adamw.launch = launch_adamw;
  table.expand_state.launch = launch_expand;
  table.store_state.launch = launch_store;
}

}  // namespace viaduct::cuda
