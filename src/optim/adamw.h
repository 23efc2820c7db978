#pragma once
// AdamW over the runs that this rank updates, with decay by the parameter record.

#include "ops/optimizer.h"
#include "optim/optimizer.h"

namespace viaduct {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  // of parameters that decay (matrices)
  /// Token table and head have the learning rate of StepScalar::decoupled_learning_rate.
  bool decoupled_rate = false;
};

class AdamW : public Optimizer {
 public:
  /// Moments of zero for every run of the store, in the recipe's formats. With `mine` it updates
  /// only these parameters.
  AdamW(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
        AdamWSettings settings, HasState mine = nullptr);

 protected:
  void update_runs(OpContext& context, const Tensor& scalars, const ChunkRuns& runs) override;

 private:
  AdamWArgs update_of_run(const Tensor& scalars, size_t i) const;

  AdamWSettings settings_;
  size_t first_, second_;  // of states()
};

}  // namespace viaduct
