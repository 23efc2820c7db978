#pragma once
// How a rank comes to have the weights that its layers use: it has all of them (WholeWeights), only
// those in use (ShardedWeights), or for some only their forms for products (StagedWeights).

#include "ops/dispatch.h"
#include "sharding/instance_gather.h"
#include "sharding/parameter_entries.h"
#include "sharding/weight_forms.h"

namespace viaduct {

class WeightStore {
 public:
  WeightStore(const ParameterEntries& entries, const StoreSettings& settings,
              OffloadedBlocks* blocks)
      : entries_(entries), settings_(settings), instances_(entries, settings, blocks) {}
  virtual ~WeightStore() = default;
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  /// Counts the updates: the one whose weights layers get.
  int64_t generation() const { return generation_; }
  /// `forms`, which outlive this, are made of the weights from now on, in `context`.
  virtual void derive(const OpContext& /*context*/, WeightForms& forms) { forms_ = &forms; }

  /// The whole canonical weight. ShapeError if it is stale, or not there as a whole.
  virtual Tensor weight(const Parameter& parameter) const = 0;
  /// Makes the weight whole: a layer is about to read it.
  virtual void require(const Parameter& parameter) = 0;
  /// No layer that has read it does so any more.
  virtual void released(const Parameter& /*parameter*/) {}

  /// A new generation begins: this rank's shards are about to change.
  virtual void begin_generation() = 0;
  /// This rank's shards of the first `count` chunks are written; not yet those of others.
  virtual void chunks_written(size_t /*count*/) {}
  /// This rank's shards are written.
  virtual void written() = 0;
  /// Makes all weights whole.
  virtual void finish() = 0;

  virtual void begin_step() {}
  /// The step's first forward in the chunk begins.
  virtual void begin_chunk(size_t /*chunk*/) {}
  /// A gradient of the chunk is about to be written.
  virtual void before_gradients(size_t /*chunk*/) {}

  // A program that is captured into a graph (ParameterStore::begin_program).
  virtual void begin_program() = 0;
  virtual void end_program() {}
  virtual void program_ran() {}

 protected:
  const ParameterEntries& entries_;
  StoreSettings settings_;
  InstanceGather instances_;
  WeightForms* forms_ = nullptr;
  int64_t generation_ = 0;
};

}  // namespace viaduct
