#include "sharding/code_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/largest_magnitude.h"
#include "ops/table.h"
#include "sharding/master_values.h"

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
  for (const auto& chunk : parameters_) {
    for (const Parameter* parameter : chunk)
      scales_[parameter] = context.allocate(DType::f32, {1, 1}, MemoryTag::weights);
  }
}

Operand CodeWeights::operand(const Parameter& parameter, const Tensor& codes) const {
  return {form_, recipe_.weight, codes.shape(), codes, scales_.at(&parameter)};
}

Operand CodeWeights::codes_of(const Parameter& parameter, const Tensor& codes) const {
  return operand(parameter, codes.view({1, codes.elements()}));
}

Tensor CodeWeights::rounded(const ShardRun& run) {
  const Tensor weights =
      context_.allocate(recipe_.weight, {run.range.size()}, MemoryTag::workspace);
  round_master(context_, run, recipe_.master, weights);
  return weights.view({1, weights.elements()});
}

void CodeWeights::write(size_t chunk, const std::vector<ShardRun>& runs) {
  const std::vector<const Parameter*>& parameters = parameters_[chunk];
  if (parameters.empty()) return;
  const Tensor amaxes = context_.allocate(DType::f32, {static_cast<int64_t>(parameters.size())},
                                          MemoryTag::workspace);
  fill(context_, {amaxes, 0});
  const auto place = [&](const Parameter* parameter) {
    const auto at = std::find(parameters.begin(), parameters.end(), parameter);
    return amaxes.slice(0, at - parameters.begin(), 1);
  };
  for (const ShardRun& run : runs) {
    if (has_codes(run)) largest_magnitude(context_, {rounded(run), place(run.parameter)});
  }
  const bool within_rank = recipe_.amax.source == AmaxSource::own;
  if (delayed_ == nullptr) {
    if (!within_rank) groups_.tp().all_reduce(amaxes, ReduceOp::max).wait();
    groups_.dp_cp().all_reduce(amaxes, ReduceOp::max).wait();
  }
  for (const Parameter* parameter : parameters) {
    const Tensor amax =
        delayed_ == nullptr
            ? place(parameter)
            : delayed_->note_amax(context_, *parameter, LayerOperand::weight, place(parameter));
    const auto run = std::ranges::find_if(
        runs, [&](const ShardRun& of) { return of.parameter == parameter && has_codes(of); });
    // A rank without elements of the weight needs its scale all the same.
    const Tensor weights = run != runs.end()
                               ? rounded(*run)
                               : context_.allocate(recipe_.weight, {1, 1}, MemoryTag::workspace);
    const Tensor codes =
        run != runs.end() ? run->weight : context_.allocate(DType::e4m3, {1}, MemoryTag::workspace);
    if (run == runs.end()) fill(context_, {weights, 0});
    convert_operand(context_, {weights, codes_of(*parameter, codes), amax});
  }
}

}  // namespace viaduct
