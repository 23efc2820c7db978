#pragma once
// The part of a model that a rank holds: chunks of layers (each layer a list of segments), their
// parameters, and what enters and leaves a chunk. model/segment_walk.h runs a micro-batch.

#include <memory>
#include <vector>

#include "model/family.h"
#include "model/model_chunk.h"
#include "model/model_place.h"
#include "pipeline/interleave_turns.h"

namespace viaduct {

class Model {
 public:
  Model(ModelConfig config, std::unique_ptr<RotaryTables> rotary, std::vector<ModelChunk> chunks);

  const ModelConfig& config() const { return config_; }
  const std::vector<ModelChunk>& chunks() const { return chunks_; }
  /// The head if this rank holds it, else null.
  const HeadSegment* head() const { return chunks_.back().head; }
  /// Every parameter of all chunks once, in order of first use in the forward.
  std::vector<const Parameter*> parameters() const;

  /// Chunk by chunk, the parameters that a ParameterStore is made from.
  std::vector<std::vector<ParameterUse>> uses() const;

  /// Segments of a chunk.
  int segments(size_t chunk) const;
  /// Where another micro-batch may run: between the two segments of exchanges in two parts.
  ChunkTurns turns(size_t chunk) const;
  /// The layers of a chunk up to the residual stream: all segments but the head's.
  SegmentRange before_head(size_t chunk) const;

  /// The tensors that enter a chunk, and those that leave it, for a micro-batch: in the order of
  /// names.
  Edge edge_into(size_t chunk, const RankContext& context, const Batch& batch) const;
  Edge edge_from(size_t chunk, const RankContext& context, const Batch& batch) const;

 private:
  ModelConfig config_;
  std::unique_ptr<RotaryTables> rotary_;  // segments point to it
  std::vector<ModelChunk> chunks_;
};

/// Builds the part of the model that `place` names, for sequences of up to `positions` tokens
/// (ConfigError if the model does not allow them). Weights live elsewhere (sharding); this makes
/// only structure.
std::unique_ptr<Model> build_model(Device& device, const ModelConfig& config,
                                   const LayerSettings& settings, int64_t positions,
                                   const ModelPlace& place = {});

}  // namespace viaduct
