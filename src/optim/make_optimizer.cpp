#include "optim/make_optimizer.h"

namespace viaduct {

std::unique_ptr<Optimizer> make_optimizer(OpContext& context, const PrecisionRecipe& recipe,
                                          ParameterStore& store, const OptimizerSettings& settings,
                                          const ParallelGroups& groups) {
  const auto momentum = [&](MomentumRule rule) {
    return std::make_unique<MomentumOptimizer>(context, recipe, store, rule, settings.momentum);
  };
  switch (settings.kind) {
    case OptimizerKind::adam:
      return std::make_unique<AdamW>(context, recipe, store, settings.adamw);
    case OptimizerKind::sgd:
      return momentum(MomentumRule::sgd);
    case OptimizerKind::lion:
      return momentum(MomentumRule::lion);
    case OptimizerKind::muon:
      return std::make_unique<Muon>(context, recipe, store, settings.adamw, settings.muon, groups);
    case OptimizerKind::adafactor:
      return std::make_unique<Adafactor>(context, recipe, store, settings.adafactor, groups);
  }
  return nullptr;
}

}  // namespace viaduct
