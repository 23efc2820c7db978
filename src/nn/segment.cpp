#include "nn/segment.h"

#include <algorithm>

#include "base/error.h"
#include "nn/encoder_rows.h"

namespace viaduct {

const Operand& TensorSet::operand(std::string_view name) const {
  for (const auto& [known, operand] : operands_) {
    if (known == name) return operand;
  }
  fail<ShapeError>("tensor set: no \"{}\" among its {} tensors", name, operands_.size());
}

void TensorSet::set(std::string_view name, Operand value) {
  for (auto& [known, operand] : operands_) {
    if (known == name) {
      operand = std::move(value);
      return;
    }
  }
  operands_.emplace_back(name, std::move(value));
}

bool TensorSet::has(std::string_view name) const {
  return std::any_of(operands_.begin(), operands_.end(),
                     [&](const Named& operand) { return operand.first == name; });
}

void TensorSet::remove(std::string_view name) {
  std::erase_if(operands_, [&](const Named& operand) { return operand.first == name; });
}

bool EdgeTensor::any_rows() const {
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (shape[dim] == kAnyRows) return true;
  return false;
}

EdgeTensor stream_edge(const RankContext& context, const Batch& batch, int64_t hidden) {
  return {std::string(kHidden),
          context.settings.precision.stream,
          {batch.stream_tokens, hidden},
          true,
          true};
}

bool Layer::in_experts(const Segment& segment) const {
  if (first_of_experts < 0) return false;
  return std::any_of(segments.begin() + first_of_experts, segments.end(),
                     [&](const auto& own) { return own.get() == &segment; });
}

const Batch& Layer::rows_of(const Batch& batch) const {
  return of_encoder ? encoder_rows(batch).rows : batch;
}

TensorSet Segment::backward(RankContext& context, const Batch& batch, const TensorSet& d_out,
                            SavedStore& saved) {
  TensorSet d_in = backward_input(context, batch, d_out, saved);
  backward_weight(context, batch, saved);
  return d_in;
}

}  // namespace viaduct
