#include "optim/adamw.h"

#include <algorithm>
#include <vector>

namespace viaduct {

AdamW::AdamW(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
             AdamWSettings settings, HasState mine)
    : Optimizer(store),
      settings_(settings),
      first_(add_state(context, "optimizer.exp_avg/", recipe.first_moment, mine)),
      second_(add_state(context, "optimizer.exp_avg_sq/", recipe.second_moment, mine, true)) {}

AdamWArgs AdamW::update_of_run(const Tensor& scalars, size_t i) const {
  const StateValues &first = states()[first_].runs[i], &second = states()[second_].runs[i];
  AdamWArgs args;
  args.master = here(run(i).master);
  args.master_scales = here(run(i).master_scales);
  args.gradient = here(run(i).gradient);
  args.first = here(first.values), args.first_scales = here(first.scales);
  args.second = here(second.values), args.second_scales = here(second.scales);
  args.weight = written_weight(i);
  args.scalars = scalars;
  args.beta1 = settings_.beta1, args.beta2 = settings_.beta2, args.epsilon = settings_.epsilon;
  args.weight_decay = run(i).parameter->decay ? settings_.weight_decay : 0;
  args.learning_rate = learning_rate(i, settings_.decoupled_rate);
  return args;
}

void AdamW::update_runs(OpContext& context, const Tensor& scalars, const ChunkRuns& runs) {
  // Of one format each: few parameters have another than the rest.
  std::vector<AdamWListArgs> lists;
  for (size_t i = runs.begin; i < runs.end; ++i) {
    if (!states()[first_].runs[i].values) continue;  // another rule's
    AdamWArgs update = update_of_run(scalars, i);
    auto list = std::ranges::find_if(lists, [&](const AdamWListArgs& other) {
      return same_formats(other.runs.front(), update);
    });
    if (list == lists.end()) list = lists.insert(lists.end(), AdamWListArgs());
    list->runs.push_back(std::move(update));
  }
  for (const AdamWListArgs& list : lists) adamw_list(context, list);
}

}  // namespace viaduct
