#pragma once
// The part of a model held by a rank: its place along the tensor axis, and its chunks of layers.

#include <vector>

#include "comm/parallel_groups.h"
#include "pipeline/parallelism.h"

namespace viaduct {

struct ModelConfig;

struct ModelPlace {
  int tp = 1, tp_rank = 0;
  /// Ranks that share the experts of a layer, and those that share each expert.
  int ep = 1, ep_rank = 0, etp = 1, etp_rank = 0;
  /// Experts have groups of their own; else they are cut and shared as dense weights are.
  bool expert_grid = false;
  /// Fast domains that the ranks of experts lie in, if tokens are sent by domain.
  int expert_domains = 1;
  /// Rows of the vocabulary tables are padded to a multiple of this times tp.
  int64_t vocabulary_multiple = 1;
  int pp = 1, pp_rank = 0;
  /// Tensor ranks of these that have the place of one rank beyond a split of the mesh.
  int split_parts = 1;
  /// The chunks of this rank in their order in the model; empty: all layers in one (pp 1).
  std::vector<ChunkLayers> chunks;
  /// Of a model with an encoder, the stages that hold its token table, and the tables of relative
  /// positions of encoder and decoder.
  std::vector<int> embedding_stages, encoder_stages, decoder_stages;
};

/// Of the rank that has these communicators.
ModelPlace model_place(const Parallelism& parallelism, const ParallelGroups& groups);

/// ConfigError listing the sizes of the model that the tensor axis does not divide.
void check_model_place(const ModelConfig& config, const ModelPlace& place);

}  // namespace viaduct
