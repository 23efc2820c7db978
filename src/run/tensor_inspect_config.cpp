#include "run/tensor_inspect_config.h"

namespace viaduct {

FieldGroup tensor_inspect_fields(TensorInspectConfig& config) {
  FieldGroup group("tensor_inspect", "Statistics of quantized tensors.");
  group.on_resume(resume::free).of_values();
  group.field("enabled", config.enabled,
              "Each quantized operand is compared with its matrix: largest magnitude, shares of "
              "elements that became 0 or were saturated, relative error, scale; in metrics.jsonl "
              "by tensor.");
  group.field("interval", config.interval, "Steps between measurements.").range(1).in("steps");
  return group;
}

}  // namespace viaduct
