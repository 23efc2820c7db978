// Launches of SGD, Lion and the elementwise steps of Muon.

#include "ops/cuda/launch/launch_args.h"
#include "ops/cuda/run_groups.h"

namespace viaduct::cuda {
namespace {

int slot(StepScalar name) {
  return static_cast<int>(name);
}

void launch_momentum(OpContext& context, const Choice&, const MomentumListArgs& args, void*) {
  for_launches(args, [&](size_t first, size_t end) {
    const MomentumArgs& any = args.runs[first];
    MomentumList list{any.scalars.data<double>(),
                      slot(StepScalar::skip),
                      slot(StepScalar::clip_factor),
                      slot(any.learning_rate),
                      slot(StepScalar::weight_decay_factor),
                      any.rule == MomentumRule::lion,
                      any.momentum,
                      any.beta1,
                      any.beta2,
                      any.weight_decay,
                      vector_of("momentum", any.weight).format,
                      0,
                      {}};
    for (size_t i = first; i < end; ++i) {
      const MomentumArgs& run = args.runs[i];
      list.run[list.runs++] = {run.master.data<float>(),   run.state.data<float>(),
                               run.gradient.data<float>(), run.weight ? run.weight.raw() : nullptr,
                               run.master.elements(),      0};
    }
    momentum(list, stream_of(context));
  });
}

void launch_muon_momentum(OpContext& context, const Choice&, const MuonMomentumArgs& args, void*) {
  muon_momentum({args.scalars.data<double>(), slot(StepScalar::skip), slot(StepScalar::clip_factor),
                 args.gradient.data<float>(), args.state.data<float>(), args.out.data<float>(),
                 args.state.elements(), args.momentum, args.nesterov},
                stream_of(context));
}

void launch_normalize(OpContext& context, const Choice&, const NormalizeArgs& args, void*) {
  normalize({args.x.data<float>(), args.sum.data<double>(), args.x.elements(), args.epsilon},
            stream_of(context));
}

void launch_muon_update(OpContext& context, const Choice&, const MuonUpdateArgs& args, void*) {
  muon_update(
      {args.scalars.data<double>(), slot(StepScalar::skip), slot(StepScalar::learning_rate),
       slot(StepScalar::weight_decay_factor), args.master.data<float>(), args.update.data<float>(),
       vector_of("muon_update", args.weight), args.master.elements(), args.weight_decay},
      stream_of(context));
}

}  // namespace

void add_momentum_launches(OpTable& table) {
  table.momentum.launch = launch_momentum;
  table.muon_momentum.launch = launch_muon_momentum;
  table.normalize.launch = launch_normalize;
  table.muon_update.launch = launch_muon_update;
}

}  // namespace viaduct::cuda
