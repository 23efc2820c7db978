#pragma once
// A model with an adapter beside another one whose weights it shares: its structure, the few
// weights that are its own (the adapter's, and modules of the model that train beside one), and a
// view of both as one. So several adapters stand on one frozen model, which is in memory once.

#include <memory>
#include <vector>

#include "model/model.h"
#include "nn/row_norms.h"
#include "pipeline/parallelism.h"
#include "sharding/memory_settings.h"
#include "sharding/parameter_index.h"
#include "sharding/parameter_store.h"

namespace viaduct {

/// Weights of a store, or of another one where that has none: parameters of the same path.
class SharedWeights final : public WeightAccess {
 public:
  /// Those of `model` that are not its own are read from `base`, a store of `base_model`'s
  /// parameters. ShapeError for one that neither has.
  SharedWeights(const Model& model, std::unique_ptr<ParameterStore> own, const Model& base_model,
                ParameterStore& base);

  /// Null where this rank has nothing of its own: no layer of an adapter.
  ParameterStore* own() const { return own_.get(); }

  Operand acquire(const Parameter& parameter, WeightUse use, int64_t run) override;
  void release(const Parameter& parameter, WeightUse use) override;

 private:
  /// The base's parameter in place of one of this model; null for those of its own store.
  const Parameter* in_base(const Parameter& parameter) const;

  std::unique_ptr<ParameterStore> own_;
  ParameterStore& base_;
  ParameterIndex shared_;                  // parameters of this model that the base has
  std::vector<const Parameter*> in_base_;  // by their places there: the base's
};

class AdaptedModel {
 public:
  /// What it shares with the model beside it; all outlive it.
  struct Beside {
    const Model& model;
    ParameterStore& store;
    const LayerSettings& layers;
    const Parallelism& parallelism;
    const MemorySettings& memory;
    const ParallelGroups& groups;
    int64_t positions = 0;
  };
  /// Its own weights are uninitialised. `context`: of the device that has the other model.
  AdaptedModel(OpContext context, const ModelConfig& config, const AdapterSettings& adapters,
               const Beside& beside);
  AdaptedModel(const AdaptedModel&) = delete;
  AdaptedModel& operator=(const AdaptedModel&) = delete;

  const Model& model() const { return *model_; }
  const LayerSettings& layers() const { return layers_; }
  SharedWeights& weights() { return *weights_; }
  /// The factors of its magnitudes.
  MagnitudeFactors& factors();

 private:
  LayerSettings layers_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<SharedWeights> weights_;
  MagnitudeFactors factors_;
};

}  // namespace viaduct
