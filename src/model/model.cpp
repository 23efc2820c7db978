#include "model/model.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {

Model::Model(ModelConfig config, std::unique_ptr<RotaryTable> rotary, std::vector<Layer> layers,
             HeadSegment* head)
    : config_(std::move(config)),
      rotary_(std::move(rotary)),
      layers_(std::move(layers)),
      head_(head) {}

std::vector<const Parameter*> Model::parameters() const {
  std::vector<const Parameter*> list;
  for (const Layer& layer : layers_) {
    for (const auto& segment : layer.segments) {
      for (const Parameter* parameter : segment->parameters()) {
        if (std::find(list.begin(), list.end(), parameter) == list.end()) list.push_back(parameter);
      }
    }
  }
  return list;
}

Tensor Model::hidden(RankContext& context, const Batch& batch, SavedStore& saved,
                     const Observer& observer) const {
  TensorSet set;
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    for (const auto& segment : layers_[i].segments)
      set = segment->forward(context, batch, set, saved);
    if (observer) observer(i == 0 ? "embed" : "layer" + std::to_string(i - 1), set.get(kHidden));
  }
  return set.get(kHidden);
}

void Model::forward(RankContext& context, const Batch& batch, SavedStore& saved,
                    const Observer& observer) const {
  head_->forward(context, batch, TensorSet(kHidden, hidden(context, batch, saved, observer)),
                 saved);
}

void Model::backward(RankContext& context, const Batch& batch, SavedStore& saved) const {
  TensorSet gradient;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    for (auto segment = layer->segments.rbegin(); segment != layer->segments.rend(); ++segment) {
      gradient = (*segment)->backward_input(context, batch, gradient, saved);
      (*segment)->backward_weight(context, batch, saved);
    }
  }
  VIADUCT_CHECK(ShapeError, saved.entries() == 0, "backward: {} saved values were never read",
                saved.entries());
}

}  // namespace viaduct
