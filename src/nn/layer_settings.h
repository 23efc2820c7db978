#pragma once
// Settings of layers: read once from a run's configuration, the same on all ranks, and constant
// during the run.

#include <cstdint>
#include <vector>

#include "nn/adapter_settings.h"
#include "nn/context_parallel/exchange.h"
#include "nn/fusions.h"
#include "nn/gemm_overlap.h"
#include "precision/recipe.h"

namespace viaduct {

struct LayerSettings {
  PrecisionRecipe precision;
  Fusions fusions;
  /// With several tensor ranks: each holds its part of the tokens for the residual stream, norms
  /// and dropout.
  bool sequence_parallel = false;
  GemmOverlapTable overlap;  // which exchanges of the tensor ranks are hidden under GEMMs
  /// How context ranks attend to each other, by block; empty: p2p in all.
  std::vector<ContextExchange> context_exchange;
  bool recompute_logits = true;  // the head's backward recomputes them instead of keeping them
  /// The exchange of experts' rows is two segments, so that a schedule puts the compute of another
  /// micro-batch between its begin and its end.
  bool exchange_in_two_parts = false;
  AdapterSettings adapters;  // none: all parameters are trained
  uint64_t seed = 1234;      // of initial weights and dropout
};

}  // namespace viaduct
