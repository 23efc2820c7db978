#include "nn/delayed_scales.h"

#include <algorithm>

#include "base/error.h"
#include "ops/amax_history.h"
#include "ops/elementwise.h"
#include "ops/largest_magnitude.h"
#include "tensor/operand_scale.h"

namespace viaduct {
namespace {

/// By LayerOperand.
constexpr std::array<std::string_view, kLayerOperands.size() + kAttentionOperands.size()>
    kOperandNames{"input", "weight", "output_gradient",  "query",
                  "key",   "value",  "attended_gradient"};

bool is_gradient(LayerOperand operand) {
  return operand == LayerOperand::output_gradient || operand == LayerOperand::attended_gradient;
}

}  // namespace

DelayedScales::DelayedScales(const OpContext& context,
                             const std::vector<const Parameter*>& parameters,
                             const PrecisionRecipe& recipe, const ParallelGroups& groups)
    : device_(context.device), settings_(recipe.amax), groups_(groups) {
  for (const bool experts : {false, true}) {
    for (const Parameter* parameter : parameters) {
      if (!parameter->quantized || parameter->experts.any() != experts) continue;
      first_[parameter] = entries_.size();
      for (const LayerOperand operand : kLayerOperands) add(*parameter, operand);
      if (!parameter->projects_attention || !recipe.products.attention) continue;
      for (const LayerOperand operand : kAttentionOperands) add(*parameter, operand);
    }
  }
  const auto tensors = static_cast<int64_t>(entries_.size());
  if (tensors == 0) return;  // a stage of blocks that are not quantized
  noted_ = context.allocate(DType::f32, {tensors}, MemoryTag::other);
  history_ = context.allocate(DType::f32, {tensors, settings_.steps}, MemoryTag::other);
  chosen_ = context.allocate(DType::f32, {tensors}, MemoryTag::other);
  device_.copy_from_host(host_tensor(DType::f32, noted_.shape()), noted_);
  device_.copy_from_host(host_tensor(DType::f32, history_.shape()), history_);
  const Tensor ones = host_tensor(DType::f32, chosen_.shape());
  for (int64_t i = 0; i < tensors; ++i) {
    const bool gradient = is_gradient(entries_[static_cast<size_t>(i)].operand);
    ones.data<float>()[i] =
        largest_element(gradient ? recipe.products.gradient : recipe.products.forward);
  }
  device_.copy_from_host(ones, chosen_);
}

void DelayedScales::add(const Parameter& parameter, LayerOperand operand) {
  if (!parameter.experts.any()) {
    entries_.push_back({&parameter, operand});
    return;
  }
  for (int64_t expert = 0; expert < parameter.experts.of; ++expert)
    entries_.push_back({&parameter, operand, expert});
  of_experts_ += parameter.experts.of;
  own_grid_ = parameter.grid == Grid::expert;
}

size_t DelayedScales::place(const Parameter& parameter, LayerOperand operand) const {
  const auto found = first_.find(&parameter);
  VIADUCT_CHECK(ShapeError, found != first_.end(), "delayed scaling: {} has no quantized products",
                parameter.path);
  const int64_t each = parameter.experts.any() ? parameter.experts.of : 1;
  const size_t place = found->second + static_cast<size_t>(static_cast<int64_t>(operand) * each +
                                                           parameter.experts.first);
  VIADUCT_CHECK(ShapeError, place < entries_.size() && entries_[place].operand == operand,
                "delayed scaling: {} has no operand \"{}\"", parameter.path,
                kOperandNames[static_cast<size_t>(operand)]);
  return place;
}

Tensor DelayedScales::chosen(const Parameter& parameter, LayerOperand operand) const {
  return own(chosen_, parameter, operand);
}

Tensor DelayedScales::chosen_for(OpContext& context, const Parameter& parameter,
                                 LayerOperand operand, const Tensor& amax) const {
  const Tensor now = chosen(parameter, operand);
  const auto like_it = [&] {
    return context.allocate(DType::f32, now.shape(), MemoryTag::activations);
  };
  const Tensor unused = like_it(), out = like_it();
  fill(context, {unused, 0});
  viaduct::note_amax(context, {amax, unused, now, out});
  return out;
}

Tensor DelayedScales::note(OpContext& context, const Parameter& parameter, LayerOperand operand,
                           const Tensor& matrix) {
  const Tensor amax =
      context.allocate(DType::f32, chosen(parameter, operand).shape(), MemoryTag::activations);
  largest_magnitude(context, {matrix, amax});
  return note_amax(context, parameter, operand, amax);
}

Tensor DelayedScales::note_amax(OpContext& context, const Parameter& parameter,
                                LayerOperand operand, const Tensor& amax) {
  const Tensor noted = own(noted_, parameter, operand);
  // A weight that is quantized again replaces the earlier one; it is not one more of the step.
  if (operand == LayerOperand::weight) fill(context, {noted, 0});
  const Tensor out = context.allocate(DType::f32, noted.shape(), MemoryTag::activations);
  viaduct::note_amax(context, {amax, noted, own(chosen_, parameter, operand), out});
  return out;
}

void DelayedScales::finish_step(OpContext& context) {
  if (entries_.empty()) return;
  // Documents that any data ranks share have keys of all of them under one scale.
  const bool apart = settings_.within_micro_batch && groups_.documents().empty();
  Communicator& others = apart ? groups_.cp() : groups_.dp_cp();
  for (Communicator* ranks : {&groups_.tp(), &others})
    ranks->all_reduce(noted_, ReduceOp::max).wait();
  // Experts are on several of the data ranks that are left out: every rank knows all.
  if (settings_.within_micro_batch && own_grid_) {
    const Tensor experts = noted_.slice(0, noted_.dim(0) - of_experts_, of_experts_);
    groups_.of(GroupKind::expert_tp_ep)->all_reduce(experts, ReduceOp::max).wait();
  }
  choose_amax(context, {noted_, history_, chosen_, settings_.most_recent, settings_.margin});
}

std::vector<std::string> DelayedScales::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    names.push_back(entry.parameter->path + "/" +
                    std::string(kOperandNames[static_cast<size_t>(entry.operand)]));
    if (entry.expert >= 0) names.back() += "/" + std::to_string(entry.expert);
  }
  return names;
}

Tensor DelayedScales::values(OpContext& context) const {
  if (entries_.empty()) return {};
  const int64_t tensors = chosen_.dim(0), steps = settings_.steps;
  const Tensor chosen = host_tensor(DType::f32, chosen_.shape()),
               history = host_tensor(DType::f32, history_.shape());
  for (const auto& [from, to] : {std::pair{&chosen_, &chosen}, {&history_, &history}}) {
    if (settings_.within_micro_batch) {
      const Tensor largest = context.allocate(DType::f32, from->shape(), MemoryTag::other);
      copy(context, {*from, largest});
      groups_.dp_cp().all_reduce(largest, ReduceOp::max).wait();
      device_.copy_to_host(largest, *to);
    } else {
      device_.copy_to_host(*from, *to);
    }
  }
  const Tensor all = host_tensor(DType::f32, {tensors, 1 + steps});
  for (int64_t i = 0; i < tensors; ++i) {
    float* const row = all.data<float>() + i * (1 + steps);
    row[0] = chosen.data<float>()[i];
    std::copy_n(history.data<float>() + i * steps, steps, row + 1);
  }
  return all;
}

void DelayedScales::restore(size_t i, const Tensor& values) {
  VIADUCT_CHECK(ShapeError, values.dim(0) > 1, "delayed scaling: no history in {}",
                describe(values));
  const Tensor history = host_tensor(DType::f32, {1, settings_.steps});
  const int64_t known = std::min(settings_.steps, values.dim(0) - 1);
  std::copy_n(values.data<float>() + 1, known, history.data<float>());
  const auto row = static_cast<int64_t>(i);
  device_.copy_from_host(history, history_.slice(0, row, 1));
  device_.copy_from_host(values.slice(0, 0, 1), at(chosen_, i));
  device_.copy_from_host(host_tensor(DType::f32, {1}), at(noted_, i));
}

}  // namespace viaduct
