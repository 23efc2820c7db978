#pragma once
// The fields of section `mixed_precision` about products of quantized operands: elements, scales,
// and which layers have them.

#include "precision/precision_config.h"

namespace viaduct {

void add_quantization_fields(FieldGroup& group, PrecisionConfig& config);

}  // namespace viaduct
