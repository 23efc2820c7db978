#include "optim/adamw.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"

namespace viaduct {

AdamW::AdamW(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
             AdamWSettings settings)
    : store_(store), settings_(settings) {
  for (const Parameter* parameter : store.parameters()) {
    State state{context.allocate(recipe.moment, parameter->shape, MemoryTag::moments),
                context.allocate(recipe.moment, parameter->shape, MemoryTag::moments)};
    fill(context, {state.first, 0});
    fill(context, {state.second, 0});
    states_.push_back(std::move(state));
  }
  norm_state_ = context.allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::other);
}

size_t AdamW::index(const Parameter& parameter) const {
  const auto& list = store_.parameters();
  const auto found = std::find(list.begin(), list.end(), &parameter);
  VIADUCT_CHECK(ShapeError, found != list.end(), "optimizer: {} is not among its parameters",
                parameter.path);
  return static_cast<size_t>(found - list.begin());
}

void AdamW::compute_norm(OpContext& context, const Tensor& scalars) {
  fill(context, {norm_state_, 0});
  for (const Parameter* parameter : store_.parameters()) {
    reproducible_sum(context, {store_.main_gradient(*parameter), Tensor(), true, norm_state_});
  }
  gradient_norm(context, {norm_state_, scalars});
}

void AdamW::step(OpContext& context, const Tensor& scalars) {
  store_.advance_generation();
  const auto& list = store_.parameters();
  for (size_t i = 0; i < list.size(); ++i) {
    AdamWArgs args;
    args.master = store_.master(*list[i]);
    args.gradient = store_.main_gradient(*list[i]);
    args.first = states_[i].first;
    args.second = states_[i].second;
    if (store_.weight(*list[i]).storage() != args.master.storage())
      args.weight = store_.weight(*list[i]);
    args.scalars = scalars;
    args.beta1 = settings_.beta1, args.beta2 = settings_.beta2, args.epsilon = settings_.epsilon;
    args.weight_decay = list[i]->decay ? settings_.weight_decay : 0;
    adamw(context, args);
  }
}

}  // namespace viaduct
