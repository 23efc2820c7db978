// Launches of the optimizer step.

#include "ops/cuda/adamw_groups.h"
#include "ops/cuda/launch/launch_args.h"

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
  for (const Tensor* tensor : {&args.master, &args.first, &args.second}) {
    VIADUCT_CHECK(DeviceError, tensor->dtype() == DType::f32,
                  "adamw: masters and moments in other formats than f32 are not implemented on "
                  "cuda yet, found {}",
                  describe(*tensor));
  }
  return {args.master.data<float>(),
          args.first.data<float>(),
          args.second.data<float>(),
          vector_of("adamw", args.gradient),
          vector_of("adamw", args.weight),
          args.master.elements(),
          0};
}

void launch_adamw(OpContext& context, const Choice&, const AdamWListArgs& args, void*) {
  for_launches(args, [&](size_t first, size_t end) {
    AdamWList list{constants_of(args.runs[first]), 0, {}};
    for (size_t i = first; i < end; ++i) list.run[list.runs++] = run_of(args.runs[i]);
    adamw(list, stream_of(context));
  });
}

}  // namespace

void add_optimizer_launches(OpTable& table) {
  table.adamw.launch = launch_adamw;
}

}  // namespace viaduct::cuda
