#pragma once
// Which optimizer a run has.

#include <memory>
#include <string>

#include "optim/adafactor.h"
#include "optim/adamw.h"
#include "optim/momentum.h"
#include "optim/muon.h"

namespace viaduct {

struct OptimizerSettings {
  AdamWSettings adamw;
  double clip_norm = 1.0;     // 0: no clipping
  std::string name = "adam";  // optimizer.optimizer
  MomentumSettings momentum;  // of sgd and lion
  MuonSettings muon;          // beside adamw
  AdafactorSettings adafactor;
};

/// `groups`: those of the store. ConfigError for an unknown name.
std::unique_ptr<Optimizer> make_optimizer(OpContext& context, const PrecisionRecipe& recipe,
                                          ParameterStore& store, const OptimizerSettings& settings,
                                          const ParallelGroups& groups);

}  // namespace viaduct
