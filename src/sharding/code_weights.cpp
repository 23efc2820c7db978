#include "sharding/code_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/largest_magnitude.h"
#include "ops/table.h"
#include "sharding/master_values.h"
#include "sharding/sharding_groups.h"

namespace viaduct {
namespace {

GemmForms forms_of(const OpContext& context, const PrecisionRecipe& recipe, GemmForm product) {
  GemmRequest request{product, recipe.weight};
  request.quantization = recipe.products;
  return gemm_operand_forms(context.ops, request);
}

}  // namespace

CodeWeights::CodeWeights(const OpContext& context,
                         std::vector<std::vector<const Parameter*>> parameters,
                         const PrecisionRecipe& recipe, const ParallelGroups& groups,
                         DelayedScales* delayed)
    : context_(context),
      parameters_(std::move(parameters)),
      recipe_(recipe),
      groups_(groups),
      delayed_(delayed),
      form_(forms_of(context, recipe, GemmForm::forward).b) {
  const OperandForm again = forms_of(context, recipe, GemmForm::data_gradient).b;
  VIADUCT_CHECK(ConfigError,
                form_ == again && form_.layout == kRowMajor && form_.element == DType::e4m3 &&
                    has_one_scale(form_),
                "mixed_precision.fp8_param_gather: expected products that read weights row-major, "
                "as e4m3 with one scale; those of {} read them as {} and {}",
                context.ops.traits.name, describe(form_), describe(again));
  for (auto& chunk : parameters_) {
    // The matrices of a grid follow each other, so that their amaxes are one message.
    std::ranges::stable_partition(chunk,
                                  [](const Parameter* p) { return p->grid == Grid::attention; });
    for (const Parameter* parameter : chunk)
      scales_[parameter] =
          context.allocate(DType::f32, {operands_of(*parameter), 1}, MemoryTag::weights);
  }
}

Operand CodeWeights::operand(const Parameter& parameter, const Tensor& codes) const {
  const int64_t count = operands_of(parameter);
  Shape matrix = codes.shape();
  matrix[0] /= count;
  return Operand::stack(count, form_, recipe_.weight, matrix, codes, scales_.at(&parameter));
}

std::vector<CodeWeights::Stretch> CodeWeights::stretches_of(const ShardRun& run) {
  if (!has_codes(run)) return {};
  const Tensor weights =
      context_.allocate(recipe_.weight, {run.range.size()}, MemoryTag::workspace);
  round_master(context_, run, recipe_.master, weights);
  const int64_t each = run.parameter->shape.elements() / operands_of(*run.parameter);
  std::vector<Stretch> list;
  for (int64_t at = run.range.begin; at < run.range.end;) {
    const int64_t end = std::min(run.range.end, (at / each + 1) * each), begin = at;
    const auto own = [&](const Tensor& all) {
      return all.slice(0, begin - run.range.begin, end - begin);
    };
    list.push_back(
        {run.parameter, at / each, own(weights).view({1, end - begin}), own(run.weight)});
    at = end;
  }
  return list;
}

void CodeWeights::reduce(const std::vector<const Parameter*>& parameters, const Tensor& amaxes) {
  int64_t begin = 0, end = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Grid grid = parameters[i]->grid;
    end += operands_of(*parameters[i]);
    if (i + 1 < parameters.size() && parameters[i + 1]->grid == grid) continue;
    const Tensor own = amaxes.slice(0, begin, end - begin);
    if (recipe_.amax.source != AmaxSource::own)
      groups_.of(grid, {Axis::tp})->all_reduce(own, ReduceOp::max).wait();
    sharding_groups(groups_, grid).ranks->all_reduce(own, ReduceOp::max).wait();
    begin = end;
  }
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
  for (const ShardRun& run : runs) {
    for (const Stretch& part : stretches_of(run))
      largest_magnitude(
          context_, {part.weights, amaxes.slice(0, first.at(part.parameter) + part.operand, 1)});
  }
  if (delayed_ == nullptr) reduce(parameters, amaxes);
  for (const Parameter* parameter : parameters) {
    const int64_t count = operands_of(*parameter);
    Tensor amax = amaxes.slice(0, first.at(parameter), count);
    if (delayed_ != nullptr)
      amax = delayed_->note_amax(context_, *parameter, LayerOperand::weight, amax);
    const auto convert = [&](int64_t i, const Tensor& weights, const Tensor& codes) {
      const Operand row(form_, recipe_.weight, weights.shape(), codes.view(weights.shape()),
                        scales_.at(parameter).slice(0, i, 1));
      convert_operand(context_, {weights, row, amax.slice(0, i, 1)});
    };
    std::vector<bool> there(static_cast<size_t>(count));
    for (const ShardRun& run : runs) {
      if (run.parameter != parameter) continue;
      for (const Stretch& part : stretches_of(run)) {
        convert(part.operand, part.weights, part.codes);
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
