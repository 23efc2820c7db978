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

class CrossCache;
class DelayedScales;
class KeyValueCache;
class MagnitudeFactors;
class QuantizationLog;
class RouterLog;

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
  /// Scales from earlier steps; null: from the operands themselves.
  DelayedScales* delayed = nullptr;
  /// i64 [T]: global indices of the tokens of the current micro-batch while a segment of it runs:
  /// counters of stochastic rounding.
  Tensor token_index = {};
  /// The ranks that share these tokens, if they are not the layout's context ranks (hybrid context
  /// parallel); not owned.
  Communicator* token_sharers = nullptr;
  /// While a segment of such rows runs (Batch::whole_stream): no tensor rank has a part of them.
  bool whole_stream = false;
  QuantizationLog* quantization_log = nullptr;  // null: quantized operands are not measured
  /// f64 [depths, 2, kReproducibleSumSize]: of each depth of multi-token prediction the sums of the
  /// weighted token losses of the step, and of the weights.
  Tensor depth_losses = {};
  /// Of weights that never change: generation and evaluation of a model; null: they are made anew.
  MagnitudeFactors* magnitude_factors = nullptr;
  RouterLog* router_log =
      nullptr;  // figures of routers (nn/moe/router_log.h); null: none are taken
  /// Generation with an encoder: keys and values of its output (nn/cross_cache.h).
  CrossCache* cross_cache = nullptr;

  /// The ranks that have the other tokens of the current micro-batch's rows. What is exchanged for
  /// each micro-batch goes over these: other ranks may have other numbers of micro-batches.
  Communicator& context_ranks() const {
    return token_sharers != nullptr ? *token_sharers : groups.cp();
  }

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
