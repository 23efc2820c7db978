#pragma once
// Section `tensor_inspect`: what is measured of quantized tensors.

#include "config/field.h"

namespace viaduct {

struct TensorInspectConfig {
  bool enabled = false;
  int64_t interval = 1;  // steps
};

FieldGroup tensor_inspect_fields(TensorInspectConfig& config);

}  // namespace viaduct
