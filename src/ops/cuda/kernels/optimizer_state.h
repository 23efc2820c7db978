#pragma once
// Optimizer state in its stored formats (tensor/state_formats.h): 64 elements share a scale.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// f16 and e4m3 are scaled; remainders belong to weights in bf16.
enum class StateFormat : uint8_t { f32, bf16, f16, e4m3, remainder };

struct StateRun {
  StateFormat format;
  void* values;
  float* scales;  // of scaled formats
  void* weights;  // beside remainders
  int64_t elements;
};
/// out = the values that are stored.
void expand_state(const StateRun& run, float* out, Stream stream);
/// Stores `in`, zeros without it.
void store_state(const StateRun& run, const float* in, Stream stream);

}  // namespace viaduct::cuda
