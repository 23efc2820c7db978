#include "sharding/code_weights.h"

#include <utility>

#include "ops/elementwise.h"
#include "ops/largest_magnitude.h"
#include "sharding/sharding_groups.h"

namespace viaduct {

CodeWeights::CodeWeights(const OpContext& context,
                         std::vector<std::vector<const Parameter*>> parameters,
                         const PrecisionRecipe& recipe, const ParallelGroups& groups,
                         DelayedScales* delayed)
    : StoredCodes(context, std::move(parameters), recipe, groups), delayed_(delayed) {
  for (const auto& chunk : parameters_) {
    for (const Parameter* parameter : chunk)
      scales_[parameter] =
          context.allocate(DType::f32, {operands_of(*parameter), 1}, MemoryTag::weights);
  }
}

Operand CodeWeights::operand(const Parameter& parameter, const Tensor& codes) const {
  return Operand::stack(operands_of(parameter), form_, recipe_.weight, matrix_of(parameter), codes,
                        scales_.at(&parameter));
}

void CodeWeights::reduce(const std::vector<const Parameter*>& parameters, const Tensor& amaxes) {
  for_each_grid(parameters, operands_of, [&](Grid grid, int64_t begin, int64_t size) {
    const Tensor own = amaxes.slice(0, begin, size);
    if (recipe_.amax.source != AmaxSource::own)
      groups_.of(grid, {Axis::tp})->all_reduce(own, ReduceOp::max).wait();
    sharding_groups(groups_, grid).ranks->all_reduce(own, ReduceOp::max).wait();
  });
}

void CodeWeights::write(size_t chunk, const std::vector<ShardRun>& runs) {
  const std::vector<const Parameter*>& parameters = parameters_[chunk];
  if (parameters.empty()) return;
  std::map<const Parameter*, int64_t> first;
  int64_t operands = 0;
  for (const Parameter* parameter : parameters) {
    first[parameter] = operands;
    operands += operands_of(*parameter);
  }
  const Tensor amaxes = context_.allocate(DType::f32, {operands}, MemoryTag::workspace);
  fill(context_, {amaxes, 0});
  const auto row = [](const Tensor& flat) { return flat.view({1, flat.elements()}); };
  for (const ShardRun& run : runs) {
    for (const Stretch& part : stretches_of(run))
      largest_magnitude(context_, {row(part.weights),
                                   amaxes.slice(0, first.at(part.parameter) + part.operand, 1)});
  }
  if (delayed_ == nullptr) reduce(parameters, amaxes);
  for (const Parameter* parameter : parameters) {
    const int64_t count = operands_of(*parameter);
    Tensor amax = amaxes.slice(0, first.at(parameter), count);
    if (delayed_ != nullptr)
      amax = delayed_->note_amax(context_, *parameter, LayerOperand::weight, amax);
    const auto convert = [&](int64_t i, const Tensor& weights, const Tensor& codes) {
      const Operand out(form_, recipe_.weight, weights.shape(), codes.view(weights.shape()),
                        scales_.at(parameter).slice(0, i, 1));
      convert_operand(context_, {weights, out, amax.slice(0, i, 1)});
    };
    std::vector<bool> there(static_cast<size_t>(count));
    for (const ShardRun& run : runs) {
      if (run.parameter != parameter) continue;
      for (const Stretch& part : stretches_of(run)) {
        convert(part.operand, row(part.weights), part.codes);
        there[static_cast<size_t>(part.operand)] = true;
      }
    }
    // A rank without elements of a matrix also needs its scale.
    for (int64_t i = 0; i < count; ++i) {
      if (there[static_cast<size_t>(i)]) continue;
      const Tensor weights = context_.allocate(recipe_.weight, {1, 1}, MemoryTag::workspace);
      fill(context_, {weights, 0});
      convert(i, weights, context_.allocate(DType::e4m3, {1}, MemoryTag::workspace));
    }
  }
}

}  // namespace viaduct
