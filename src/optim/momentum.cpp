#include "optim/momentum.h"

namespace viaduct {

MomentumOptimizer::MomentumOptimizer(OpContext& context, const PrecisionRecipe& recipe,
                                     ParameterStore& store, MomentumRule rule,
                                     MomentumSettings settings)
    : Optimizer(store), rule_(rule), settings_(settings) {
  // PyTorch's names of these states.
  add_state(context,
            rule == MomentumRule::sgd ? "optimizer.momentum_buffer/" : "optimizer.exp_avg/",
            recipe.master);
}

void MomentumOptimizer::update_runs(OpContext& context, const Tensor& scalars,
                                    const ChunkRuns& runs) {
  MomentumListArgs updates[2];  // of one format each: with weights to write, and without
  for (size_t i = runs.begin; i < runs.end; ++i) {
    if (!states().front().runs[i].values) continue;  // another rule's
    MomentumArgs args;
    args.master = here(run(i).master);
    args.gradient = here(run(i).gradient);
    args.state = here(states().front().runs[i].values);
    args.weight = written_weight(i);
    args.scalars = scalars;
    args.rule = rule_;
    args.momentum = settings_.momentum;
    args.beta1 = settings_.beta1, args.beta2 = settings_.beta2;
    args.weight_decay = run(i).parameter->decay ? settings_.weight_decay : 0;
    args.learning_rate = learning_rate(i, settings_.decoupled_rate);
    updates[run(i).store_writes_weight ? 1 : 0].runs.push_back(std::move(args));
  }
  for (const MomentumListArgs& list : updates) momentum_list(context, list);
}

}  // namespace viaduct
