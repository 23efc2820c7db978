#include "nn/linear_log.h"

#include "nn/quantization_log.h"

namespace viaduct {

std::string layer_path(const Parameter& weight) {
  return weight.path.substr(0, weight.path.rfind(".weight"));
}

void log_operand(RankContext& context, const Parameter& weight, const LinearQuantization& operands,
                 GemmForm product, const Tensor& matrix, const Tensor& amax,
                 const StochasticRounding& rounding) {
  if (context.quantization_log == nullptr) return;
  context.quantization_log->add(
      context.ops, layer_path(weight) + (product == GemmForm::forward ? " x" : " dy"), matrix,
      operands.read_form(context, product, matrix.dim(0)), amax, rounding);
}

void log_weight(RankContext& context, const Parameter& weight, const Operand& operand) {
  // Codes are all that is stored of such a weight: there is no matrix to compare with.
  if (context.settings.precision.stores_codes) return;
  const std::string name = layer_path(weight) + " w";
  if (context.quantization_log == nullptr || context.quantization_log->has(name)) return;
  const AcquiredWeight held(context.weights, weight, WeightUse::elementwise);
  context.quantization_log->add_weight(context.ops, name, held.tensor(), operand);
}

}  // namespace viaduct
