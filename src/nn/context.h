#pragma once
// What a layer gets besides its inputs: the rank's device and ops, its place in the mesh, weights
// and gradients, keys of random numbers, settings.precision. None of it is global: two models with
// two contexts can live in one process.

#include <cstdint>

#include "base/philox.h"
#include "comm/parallel_groups.h"
#include "nn/access.h"
#include "nn/layer_settings.h"
#include "ops/dispatch.h"

namespace viaduct {

class KeyValueCache;

struct RankContext {
  OpContext ops;
  WeightAccess& weights;
  GradientAccess* gradients = nullptr;  // null without a backward
  const ParallelGroups& groups;
  const LayerSettings& settings;
  bool training = false;           // dropout is on
  Tensor scalars;                  // the StepScalars block, f64 [kStepScalars]
  Tensor loss_state;               // reproducible sum of the weighted token losses of the step
  KeyValueCache* cache = nullptr;  // generation: keys and values of earlier tokens

  /// An uninitialised tensor in the activation format.
  Tensor activation(const Shape& shape, MemoryTag tag = MemoryTag::saved) {
    return ops.allocate(settings.precision.activation, shape, tag);
  }
  /// The same in the format of the residual stream.
  Tensor stream(const Shape& shape, MemoryTag tag = MemoryTag::saved) {
    return ops.allocate(settings.precision.stream, shape, tag);
  }
  Tensor statistic(const Shape& shape, MemoryTag tag = MemoryTag::saved) {
    return ops.allocate(settings.precision.statistic, shape, tag);
  }
};

}  // namespace viaduct
