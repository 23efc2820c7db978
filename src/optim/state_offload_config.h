#pragma once
// The fields of section `optimizer` that say how much of its state lives in the second memory
// (section `memory`), by Megatron's names.

#include "config/field.h"

namespace viaduct {

struct StateOffloadConfig {
  bool optimizer_cpu_offload = false;
  double optimizer_offload_fraction = 0;
  bool overlap_cpu_optimizer_d2h_h2d = false;

  /// 0: nothing is offloaded.
  double fraction() const { return optimizer_cpu_offload ? optimizer_offload_fraction : 0; }
};

FieldGroup state_offload_fields(StateOffloadConfig& config);

}  // namespace viaduct
