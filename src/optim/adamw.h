#pragma once
// The optimizer step over the runs that this rank updates: AdamW with decay by the parameter
// record.

#include <vector>

#include "ops/optimizer.h"
#include "sharding/parameter_store.h"

namespace viaduct {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  // of parameters that decay (matrices)
  /// Token table and head have the learning rate of StepScalar::decoupled_learning_rate.
  bool decoupled_rate = false;
};

class AdamW {
 public:
  /// Moments of zero for every run of the store, in the recipe's format.
  AdamW(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
        AdamWSettings settings);

  /// One update of masters, moments and weights, nothing if the skip flag is set; a new generation
  /// of weights either way, gathered as the store's settings say. Goes chunk by chunk: gathers of
  /// one can run beside the update of the next.
  void step(OpContext& context, const Tensor& scalars);

  /// Flat moments of a run.
  struct Moments {
    Tensor first, second;
  };
  /// In the order of the store's shard_runs.
  const std::vector<Moments>& moments() const { return moments_; }
  /// The moments of a parameter in its shape. ShapeError unless this rank's run is all of it.
  Tensor first_moment(const Parameter& parameter) const { return whole(parameter).first; }
  Tensor second_moment(const Parameter& parameter) const { return whole(parameter).second; }
  const AdamWSettings& settings() const { return settings_; }

 private:
  Moments whole(const Parameter& parameter) const;
  AdamWArgs update_of_run(const Tensor& scalars, size_t run) const;

  ParameterStore& store_;
  AdamWSettings settings_;
  std::vector<Moments> moments_;
};

}  // namespace viaduct
