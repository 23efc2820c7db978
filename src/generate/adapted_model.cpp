#include "generate/adapted_model.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "model/model_place.h"

namespace viaduct {
namespace {

using Paths = std::unordered_map<std::string_view, const Parameter*>;

Paths by_path(const Model& model) {
  Paths paths;
  for (const Parameter* parameter : model.parameters()) paths[parameter->path] = parameter;
  return paths;
}

/// Whether the other model's weight is not this one's: it has none, one of the two is an adapter's,
/// or a module that trains beside one.
bool is_own(const Parameter& parameter, bool adapts, const Paths& base, bool base_adapts) {
  if (parameter.adapter || (adapts && parameter.trained)) return true;
  const auto found = base.find(parameter.path);
  return found == base.end() || found->second->adapter || (base_adapts && found->second->trained);
}

LayerSettings with_adapters(LayerSettings layers, const AdapterSettings& adapters) {
  layers.adapters = adapters;
  return layers;
}

}  // namespace

SharedWeights::SharedWeights(const Model& model, std::unique_ptr<ParameterStore> own,
                             const Model& base_model, ParameterStore& base)
    : own_(std::move(own)), base_(base) {
  const Paths paths = by_path(base_model);
  for (const Parameter* parameter : model.parameters()) {
    const bool has =
        own_ && std::ranges::find(own_->parameters(), parameter) != own_->parameters().end();
    if (has) continue;
    const auto found = paths.find(parameter->path);
    VIADUCT_CHECK(ShapeError, found != paths.end() && found->second->shape == parameter->shape,
                  "shared weights: {} {} is no weight of the model beside this one",
                  parameter->path, to_string(parameter->shape));
    if (shared_.add(parameter).second) in_base_.push_back(found->second);
  }
}

Operand SharedWeights::acquire(const Parameter& parameter, WeightUse use, int64_t run) {
  const Parameter* shared = in_base(parameter);
  return shared == nullptr ? own_->acquire(parameter, use, run) : base_.acquire(*shared, use, run);
}

void SharedWeights::release(const Parameter& parameter, WeightUse use) {
  const Parameter* shared = in_base(parameter);
  shared == nullptr ? own_->release(parameter, use) : base_.release(*shared, use);
}

const Parameter* SharedWeights::in_base(const Parameter& parameter) const {
  const auto place = shared_.find(&parameter);
  return place ? in_base_[*place] : nullptr;
}

AdaptedModel::AdaptedModel(OpContext context, const ModelConfig& config,
                           const AdapterSettings& adapters, const Beside& beside)
    : layers_(with_adapters(beside.layers, adapters)),
      model_(build_model(context.device, config, layers_, beside.positions,
                         model_place(beside.parallelism, beside.groups))) {
  const Paths base = by_path(beside.model);
  const bool base_adapts = beside.layers.adapters.any();
  bool any = false;
  std::vector<std::vector<ParameterUse>> own = model_->uses();
  for (std::vector<ParameterUse>& chunk : own) {
    std::erase_if(chunk, [&](const ParameterUse& use) {
      return !is_own(*use.parameter, adapters.any(), base, base_adapts);
    });
    any = any || !chunk.empty();
  }
  std::unique_ptr<ParameterStore> store;
  if (any) {
    store = std::make_unique<ParameterStore>(
        context.device, layers_.precision, own,
        StoreSettings{.with_gradients = false, .with_masters = false}, beside.groups);
    store->derive_weights(context, beside.memory.packed_weights);
  }
  weights_ = std::make_unique<SharedWeights>(*model_, std::move(store), beside.model, beside.store);
}

MagnitudeFactors& AdaptedModel::factors() {
  if (weights_->own() != nullptr) factors_.begin(weights_->own()->generation());
  return factors_;
}

}  // namespace viaduct
