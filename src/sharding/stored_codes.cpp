#include "sharding/stored_codes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/quantized_forms.h"
#include "ops/table.h"
#include "sharding/code_weights.h"
#include "sharding/master_values.h"
#include "sharding/parameter_buffer.h"
#include "sharding/square_weights.h"

namespace viaduct {
namespace {

GemmForms forms_of(const OpContext& context, const PrecisionRecipe& recipe, GemmForm product) {
  GemmRequest request{product, recipe.weight};
  request.quantization = recipe.products;
  return gemm_operand_forms(context.ops, request);
}

}  // namespace

StoredCodes::StoredCodes(const OpContext& context,
                         std::vector<std::vector<const Parameter*>> parameters,
                         const PrecisionRecipe& recipe, const ParallelGroups& groups)
    : context_(context),
      parameters_(std::move(parameters)),
      recipe_(recipe),
      groups_(groups),
      form_(forms_of(context, recipe, GemmForm::forward).b) {
  const OperandForm expected = quantized_forms(GemmForm::forward, recipe.products).b;
  const OperandForm again = forms_of(context, recipe, GemmForm::data_gradient).b;
  VIADUCT_CHECK(ConfigError, form_ == again && form_ == expected,
                "mixed_precision.{}: expected products that read weights as {}; those of {} read "
                "them as {} and {}",
                recipe.products.scaling == Scaling::nvfp4 ? "fp4_param_gather" : "fp8_param_gather",
                describe(expected), context.ops.traits.name, describe(form_), describe(again));
  for (auto& chunk : parameters_) {
    // The matrices of a grid follow each other, so that their magnitudes are one message.
    std::ranges::stable_partition(chunk,
                                  [](const Parameter* p) { return p->grid == Grid::attention; });
  }
}

Shape StoredCodes::matrix_of(const Parameter& parameter) {
  Shape matrix = parameter.shape;
  matrix[0] /= operands_of(parameter);
  return matrix;
}

std::vector<StoredCodes::Stretch> StoredCodes::stretches_of(const ShardRun& run) {
  if (!has_codes(run)) return {};
  const Tensor weights =
      context_.allocate(recipe_.weight, {run.range.size()}, MemoryTag::workspace);
  round_master(context_, run, recipe_.master, weights);
  const int64_t each = matrix_of(*run.parameter).elements();
  std::vector<Stretch> list;
  for (int64_t at = run.range.begin; at < run.range.end;) {
    const int64_t end = std::min(run.range.end, (at / each + 1) * each);
    const Range own{at - run.range.begin, end - run.range.begin};
    list.push_back(
        {run.parameter, at / each, at % each, flat_part(weights, own), flat_part(run.weight, own)});
    at = end;
  }
  return list;
}

std::unique_ptr<StoredCodes> make_stored_codes(
    const OpContext& context, std::vector<std::vector<const Parameter*>> parameters,
    const PrecisionRecipe& recipe, const ParallelGroups& groups, DelayedScales* delayed) {
  if (recipe.products.scaling == Scaling::nvfp4)
    return std::make_unique<SquareWeights>(context, std::move(parameters), recipe, groups);
  return std::make_unique<CodeWeights>(context, std::move(parameters), recipe, groups, delayed);
}

}  // namespace viaduct
