#pragma once
// Which optimizer a run has.

#include <memory>

#include "optim/adafactor.h"
#include "optim/adamw.h"
#include "optim/momentum.h"
#include "optim/muon.h"
#include "optim/optimizer_kind.h"

namespace viaduct {

struct OptimizerSettings {
  AdamWSettings adamw;
  double clip_norm = 1.0;  // 0: no clipping
  OptimizerKind kind = OptimizerKind::adam;
  MomentumSettings momentum;  // of sgd and lion
  MuonSettings muon;          // beside adamw
  AdafactorSettings adafactor;
};

/// `groups`: those of the store.
std::unique_ptr<Optimizer> make_optimizer(OpContext& context, const PrecisionRecipe& recipe,
                                          ParameterStore& store, const OptimizerSettings& settings,
                                          const ParallelGroups& groups);

}  // namespace viaduct
