#include "nn/segment.h"

#include "base/error.h"

namespace viaduct {

const Tensor& TensorSet::get(std::string_view name) const {
  for (const auto& [known, tensor] : tensors_) {
    if (known == name) return tensor;
  }
  fail<ShapeError>("tensor set: no \"{}\" among its {} tensors", name, tensors_.size());
}

void TensorSet::set(std::string_view name, Tensor tensor) {
  for (auto& [known, value] : tensors_) {
    if (known == name) {
      value = std::move(tensor);
      return;
    }
  }
  tensors_.emplace_back(name, std::move(tensor));
}

TensorSet Segment::backward(RankContext& context, const Batch& batch, const TensorSet& d_out,
                            SavedStore& saved) {
  TensorSet d_in = backward_input(context, batch, d_out, saved);
  backward_weight(context, batch, saved);
  return d_in;
}

}  // namespace viaduct
