#pragma once
// What a linear layer adds to the log of quantized operands (nn/quantization_log.h), where the
// context has one.

#include <string>

#include "nn/context.h"
#include "nn/linear_quantization.h"
#include "ops/gemm.h"

namespace viaduct {

/// The path of a weight's layer: the weight's own without its last name.
std::string layer_path(const Parameter& weight);

/// Adds x (forward) or dy (data gradient) in the form in which `product` reads it. `amax`,
/// `rounding`: as in operand_in.
void log_operand(RankContext& context, const Parameter& weight, const LinearQuantization& operands,
                 GemmForm product, const Tensor& matrix, const Tensor& amax,
                 const StochasticRounding& rounding);
/// Adds the weight, as products read it, once a step.
void log_weight(RankContext& context, const Parameter& weight, const Operand& operand);

}  // namespace viaduct
