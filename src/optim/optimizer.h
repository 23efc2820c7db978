#pragma once
// The common part of all optimizers: updates of the runs that this rank holds, chunk by chunk, and
// states that checkpoints save with the weights. One file an optimizer.

#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "nn/moe/quantile_balance.h"
#include "ops/step_scalars.h"
#include "sharding/parameter_store.h"
#include "tensor/state_formats.h"

namespace viaduct {

/// Which parameters have a state; null: all. A load bias has none (Parameter::load_bias_rate).
using HasState = bool (*)(const Parameter&);
/// The shape of a state of a logical tensor of this shape.
using StateShape = Shape (*)(const Shape& logical);

/// A state that is a logical tensor of its own, equal on all ranks that update a part of the
/// parameter: means over a matrix's rows, for example.
struct SharedState {
  std::shared_ptr<const Parameter> description;  // one part: the state's name and shape
  Tensor values;                                 // f32, whole
  bool saved = false;                            // by this rank
};

/// One of an optimizer's states: a value for each element of each parameter that has it, or, where
/// `shape` is not null, tensors of another shape.
struct OptimizerState {
  std::string prefix;             // of its names in checkpoints: "optimizer.exp_avg/"
  std::vector<StateValues> runs;  // flat, in the order of the store's shard_runs; some undefined
  HasState has = nullptr;
  bool lifts_zeros = false;  // in scaled formats (tensor/state_rounding.h)
  StateShape shape = nullptr;
  std::vector<SharedState> shared = {};  // with `shape`, instead of `runs`
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
  /// Load biases with an entry in `biases` get its values, others move by their errors.
  void step(OpContext& context, const Tensor& scalars, const LoadBiases& biases = {});

  const std::vector<OptimizerState>& states() const { return states_; }

 protected:
  explicit Optimizer(ParameterStore& store) : store_(store) {}
  ParameterStore& store() { return store_; }

  /// A state of zeros for the runs of all parameters that have it. Returns its place in `states`.
  size_t add_state(OpContext& context, std::string prefix, DType format, HasState has = nullptr,
                   bool lifts_zeros = false);
  /// A state of tensors of their own, equal on the ranks that share the update.
  void add_shared_state(OptimizerState state) { states_.push_back(std::move(state)); }
  const ShardRun& run(size_t i) const { return store_.shard_runs()[i]; }
  /// A tensor of a run or of its states with its memory, while its bucket is updated.
  Tensor here(const Tensor& tensor) const;
  /// The weight of a run where it is written in addition to the master, else nothing. Codes are
  /// written later, from the master.
  Tensor written_weight(size_t i) const;
  /// The slot of a run's learning rate. `decoupled`: token table and head have their own.
  StepScalar learning_rate(size_t i, bool decoupled) const;

  /// The blocks that a walk over runs uses of one run.
  struct RunUse {
    bool master = false;  // with its weight; both change
    bool states = false;  // change
    bool gradient = false;
  };
  /// Calls f(runs) for each bucket of the chunk, with the blocks that `use(i)` names on the device.
  void walk(const ChunkRuns& chunk, FunctionRef<RunUse(size_t i)> use,
            FunctionRef<void(const ChunkRuns& runs)> f);

  /// Moves or sets the biases of routers that balance experts.
  void move_load_biases(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                        const LoadBiases& biases);
  /// Updates a chunk: bucket by bucket, unless an optimizer overrides it.
  virtual void update_chunk(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk);
  /// Updates runs that are on the device. Load biases have another rule.
  virtual void update_runs(OpContext& context, const Tensor& scalars, const ChunkRuns& runs) = 0;

 private:
  /// The values of a bucket's runs, in `state`, zero.
  void add_bucket(OpContext& context, DType format, const RunBucket& bucket, OptimizerState& state);

  ParameterStore& store_;
  std::vector<OptimizerState> states_;
};

}  // namespace viaduct
