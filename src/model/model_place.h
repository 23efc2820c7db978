#pragma once
// Which part of a model a rank holds: its place along the tensor axis, and its chunks of layers.

#include <vector>

#include "nn/context_parallel/exchange.h"
#include "pipeline/chunk_layers.h"

namespace viaduct {

struct ModelConfig;

struct ModelPlace {
  int tp = 1, tp_rank = 0;
  bool sequence_parallel = false;
  /// Rows of the vocabulary tables are padded to a multiple of this times tp.
  int64_t vocabulary_multiple = 1;
  /// How context ranks attend to each other, by block; empty: p2p everywhere.
  std::vector<ContextExchange> context_exchange;
  int pp = 1, pp_rank = 0;
  /// The chunks of this rank in their order in the model; empty: all layers in one (pp 1).
  std::vector<ChunkLayers> chunks;
};

/// ConfigError listing the sizes of the model that the tensor axis does not divide.
void check_model_place(const ModelConfig& config, const ModelPlace& place);

}  // namespace viaduct
