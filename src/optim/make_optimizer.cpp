#include "optim/make_optimizer.h"

#include "base/error.h"

namespace viaduct {

std::unique_ptr<Optimizer> make_optimizer(OpContext& context, const PrecisionRecipe& recipe,
                                          ParameterStore& store, const OptimizerSettings& settings,
                                          const ParallelGroups& groups) {
  if (settings.name == "adam")
    return std::make_unique<AdamW>(context, recipe, store, settings.adamw);
  if (settings.name == "sgd" || settings.name == "lion") {
    const MomentumRule rule = settings.name == "sgd" ? MomentumRule::sgd : MomentumRule::lion;
    return std::make_unique<MomentumOptimizer>(context, recipe, store, rule, settings.momentum);
  }
  if (settings.name == "muon")
    return std::make_unique<Muon>(context, recipe, store, settings.adamw, settings.muon, groups);
  if (settings.name == "adafactor")
    return std::make_unique<Adafactor>(context, recipe, store, settings.adafactor, groups);
  fail<ConfigError>("optimizer.optimizer={}: unknown; expected adam, sgd, lion, muon or adafactor",
                    settings.name);
}

}  // namespace viaduct
