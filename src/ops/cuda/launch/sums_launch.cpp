// Launches of reproducible sums and of the gradient norm.

#include "ops/cuda/kernels/binned_sum.h"
#include "ops/cuda/launch/launch_args.h"
#include "ops/cuda/sum_blocks.h"

namespace viaduct::cuda {
namespace {

Format sum_format(const Tensor& x) {
  return format_of("reproducible_sum", x.dtype(), true);
}

/// state += the values of `x`, a state for each block being in the workspace.
void add_up(OpContext& context, const std::vector<Tensor>& x, const float* weight, bool squared,
            const Tensor& state, void* workspace) {
  auto* const states = static_cast<double*>(workspace);
  const Stream stream = stream_of(context);
  int64_t elements = 0, blocks = 0;
  for (const Tensor& tensor : x) elements += tensor.elements();
  SumList list{
      sum_format(x.front()), squared, weight, elements_per_sum_block(elements), states, 0, {}};
  const auto flush = [&] {
    list.states = states + blocks * kReproducibleSumSize;
    if (list.runs > 0) blocks += sum_runs(list, stream);
    list.runs = 0;
  };
  for (const Tensor& tensor : x) {
    if (tensor.elements() == 0) continue;
    list.run[list.runs++] = {tensor.raw(), tensor.elements(), 0};
    if (list.runs == SumList::kMostRuns) flush();
  }
  flush();
  merge_sums(states, blocks, state.data<double>(), stream);
}

void launch_sum(OpContext& context, const Choice&, const ReproducibleSumArgs& args,
                void* workspace) {
  add_up(context, {args.x}, pointer_of<float>(args.weight), args.squared, args.state, workspace);
}

void launch_sums(OpContext& context, const Choice&, const ReproducibleSumsArgs& args,
                 void* workspace) {
  add_up(context, args.x, nullptr, args.squared, args.state, workspace);
}

void launch_widen(OpContext& context, const Choice&, const WidenSumArgs& args, void*) {
  widen_sum(args.state.data<double>(), args.wide.data<int64_t>(), stream_of(context));
}

void launch_narrow(OpContext& context, const Choice&, const NarrowSumArgs& args, void*) {
  narrow_sum(args.wide.data<int64_t>(), args.state.data<double>(), stream_of(context));
}

void launch_value(OpContext& context, const Choice&, const SumValueArgs& args, void*) {
  sum_value(args.state.data<double>(), args.out.data<double>(), stream_of(context));
}

void launch_gradient_norm(OpContext& context, const Choice&, const GradientNormArgs& args, void*) {
  const auto slot = [](StepScalar name) { return static_cast<int>(name); };
  gradient_norm(
      {args.state.data<double>(), args.scalars.data<double>(), slot(StepScalar::gradient_factor),
       slot(StepScalar::clip_norm), slot(StepScalar::gradient_norm), slot(StepScalar::clip_factor),
       slot(StepScalar::skip), args.skip_not_finite},
      stream_of(context));
}

}  // namespace

void add_sum_launches(OpTable& table) {
  table.reproducible_sum.launch = launch_sum;
  table.reproducible_sums.launch = launch_sums;
  table.widen_sum.launch = launch_widen;
  table.narrow_sum.launch = launch_narrow;
  table.sum_value.launch = launch_value;
  table.gradient_norm.launch = launch_gradient_norm;
}

}  // namespace viaduct::cuda
