#pragma once
// SGD with momentum and Lion over the runs that this rank updates, with decay by the parameter
// record.

#include "ops/momentum.h"
#include "optim/optimizer.h"

namespace viaduct {

struct MomentumSettings {
  double momentum = 0.9;              // sgd
  double beta1 = 0.95, beta2 = 0.98;  // lion
  double weight_decay = 0.1;          // of parameters that decay (matrices)
  /// Token table and head have the learning rate of StepScalar::decoupled_learning_rate.
  bool decoupled_rate = false;
};

class MomentumOptimizer final : public Optimizer {
 public:
  /// Momenta of zero for every run of the store: FP32 (FP64 where masters are).
  MomentumOptimizer(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
                    MomentumRule rule, MomentumSettings settings);

 private:
  void update_runs(OpContext& context, const Tensor& scalars, const ChunkRuns& runs) override;

  MomentumRule rule_;
  MomentumSettings settings_;
};

}  // namespace viaduct
