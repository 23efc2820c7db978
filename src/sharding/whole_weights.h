#pragma once
// Weights that are whole on each rank: after an update the shards of all ranks are gathered into
// them, bucket by bucket.

#include "sharding/weight_gather.h"
#include "sharding/weight_store.h"

namespace viaduct {

class WholeWeights : public WeightStore {
 public:
  WholeWeights(const ParameterEntries& entries, const StoreSettings& settings,
               OffloadedBlocks* blocks);

  Tensor weight(const Parameter& parameter) const override;
  void require(const Parameter& parameter) override;
  void begin_generation() override;
  /// With gather_with_optimizer_step, starts their gathers.
  void chunks_written(size_t count) override;
  /// Gathers them, or with overlap_param_gather leaves that to the next forward.
  void written() override;
  void finish() override;
  /// With align_param_gather, starts the gathers of this and the next chunk.
  void begin_chunk(size_t chunk) override;
  void begin_program() override;
  void end_program() override { gather_.finish(); }
  void program_ran() override { gather_.gathered(); }

 protected:
  /// Weights are gathered in the opposite order of gradients.
  size_t gather_place(size_t bucket) const { return entries_.buckets().size() - 1 - bucket; }

  WeightGather gather_;
};

}  // namespace viaduct
