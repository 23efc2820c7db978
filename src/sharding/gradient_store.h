#pragma once
// How the gradients that a rank computes become the sums over ranks that it updates with: it has
// all of them, which are reduced once a step (WholeGradients), or shards into which those of each
// backward are reduced (ShardedGradients).

#include <vector>

#include "ops/dispatch.h"
#include "sharding/parameter_entries.h"

namespace viaduct {

class GradientStore {
 public:
  virtual ~GradientStore() = default;

  /// Gradients are zero.
  virtual void begin_step(OpContext& context) = 0;
  /// ParameterEntry::expected is known, of all parameters.
  virtual void expect() {}
  /// The trained parameter's entry has memory for a contribution.
  virtual void open(const Parameter& /*parameter*/) {}
  /// The number of contributions that are in this memory.
  virtual int64_t held(const ParameterEntry& entry) const = 0;
  /// A contribution is complete, and counted by the entry.
  virtual void done(const Parameter& parameter) = 0;
  /// With align_grad_reduce: the chunk's complete gradients are sent from here on.
  virtual void reduce_chunk(size_t /*chunk*/) {}
  /// Returns when this rank's runs hold the sums of the step over all ranks, zero without
  /// contributions.
  virtual void finish(OpContext& context) = 0;
  /// After `finish`: makes the gradients of all entries whole.
  virtual void gather() = 0;
  /// With bucket_norms, after `finish`: see ParameterStore.
  virtual std::vector<double> bucket_norms() { return {}; }

  // A program that is captured into a graph (ParameterStore::begin_program).
  /// What was sent is complete, and noted.
  virtual void end_program() = 0;
  /// A graph ran in its place: the notes hold.
  virtual void program_ran() = 0;
};

}  // namespace viaduct
