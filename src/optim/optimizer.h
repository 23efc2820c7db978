#pragma once
// What all optimizers are: updates of the runs that this rank holds, chunk by chunk, and states
// that checkpoints save beside the weights. One file an optimizer.

#include <string>
#include <vector>

#include "ops/step_scalars.h"
#include "sharding/parameter_store.h"
#include "tensor/state_formats.h"

namespace viaduct {

/// Which parameters have a state; null: all.
using HasState = bool (*)(const Parameter&);

/// One of an optimizer's states: a value for each element of each parameter that has it.
struct OptimizerState {
  std::string prefix;             // of its names in checkpoints: "optimizer.exp_avg/"
  std::vector<StateValues> runs;  // flat, in the order of the store's shard_runs; some undefined
  HasState has = nullptr;
  bool lifts_zeros = false;  // in scaled formats (tensor/state_rounding.h)
};

/// The runs [begin, end) of a chunk of the model.
struct ChunkRuns {
  size_t chunk = 0, begin = 0, end = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of masters, states and weights, nothing if the skip flag is set; a new generation
  /// of weights either way, gathered as the store's settings say. Goes chunk by chunk: gathers of
  /// one can run beside the update of the next.
  void step(OpContext& context, const Tensor& scalars);

  const std::vector<OptimizerState>& states() const { return states_; }

 protected:
  explicit Optimizer(ParameterStore& store) : store_(store) {}

  /// A state of zeros for the runs of all parameters that have it. Returns its place in `states`.
  size_t add_state(OpContext& context, std::string prefix, DType format, HasState has = nullptr,
                   bool lifts_zeros = false);
  const ShardRun& run(size_t i) const { return store_.shard_runs()[i]; }
  /// The weight of a run where it is to be written beside the master, else nothing.
  Tensor written_weight(size_t i) const;
  /// The slot of a run's learning rate. `decoupled`: token table and head have their own.
  StepScalar learning_rate(size_t i, bool decoupled) const;

  virtual void update_runs(OpContext& context, const Tensor& scalars, const ChunkRuns& runs) = 0;

 private:
  ParameterStore& store_;
  std::vector<OptimizerState> states_;
};

}  // namespace viaduct
