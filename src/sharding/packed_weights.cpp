#include "sharding/packed_weights.h"

#include "base/error.h"
#include "ops/weight_tiles.h"

namespace viaduct {
namespace {

GemmForm product_of(WeightUse use) {
  return use == WeightUse::forward ? GemmForm::forward : GemmForm::data_gradient;
}

}  // namespace

PackedWeights::PackedWeights(const OpContext& context,
                             const std::vector<const Parameter*>& parameters, DType weight,
                             bool with_gradients)
    : context_(context) {
  for (const Parameter* parameter : parameters) {
    if (!parameter->multiplied) continue;
    for (const WeightUse use : {WeightUse::forward, WeightUse::data_gradient}) {
      if (use == WeightUse::data_gradient && !with_gradients) continue;
      forms_[parameter][use].tiles = context_.allocate(
          weight, weight_tiles_shape(product_of(use), parameter->shape), MemoryTag::weights);
    }
  }
}

Tensor PackedWeights::form(const Parameter& parameter, WeightUse use, const Tensor& canonical,
                           int64_t generation) {
  const auto found = forms_.find(&parameter);
  if (found == forms_.end() || !found->second.contains(use)) return Tensor();
  Form& form = found->second[use];
  if (form.generation != generation) {
    pack_weight(context_, {product_of(use), canonical, form.tiles});
    form.generation = generation;
  }
  return form.tiles;
}

}  // namespace viaduct
