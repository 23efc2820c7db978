#pragma once
// The fields of section `model` about attention: norms of heads, which keys a query sees, and how
// scores become weights. Positions are with the rest (model_fields.cpp).

#include <string>

#include "model/model_fields.h"

namespace viaduct {

/// Bound of positions and of sizes in tokens: far above any model, and low enough that products do
/// not overflow.
inline constexpr double kMostPositions = 1 << 26;

/// Why cuDNN computes none of the model's attention whatever its heads; "" if it may. Of resolved
/// fields.
std::string without_library_attention(const ModelFields& model);

void add_attention_fields(FieldGroup& group, ModelFields& config);

}  // namespace viaduct
