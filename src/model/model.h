#pragma once
// A model on one rank: its layers (each a list of segments), their parameters, and the walk through
// them.

#include <functional>
#include <memory>
#include <vector>

#include "model/family.h"
#include "nn/head.h"
#include "nn/segment.h"

namespace viaduct {

class Model {
 public:
  /// Called with "embed", "layer0", … and the residual stream [T, H] that leaves it.
  using Observer = std::function<void(const std::string& name, const Tensor& hidden)>;

  Model(ModelConfig config, std::unique_ptr<RotaryTable> rotary, std::vector<Layer> layers,
        HeadSegment* head);

  const ModelConfig& config() const { return config_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const HeadSegment& head() const { return *head_; }
  /// Every parameter once, in order of first use in the forward.
  std::vector<const Parameter*> parameters() const;

  /// The whole forward of a micro-batch; adds its losses to context.loss_state.
  void forward(RankContext& context, const Batch& batch, SavedStore& saved,
               const Observer& observer = {}) const;
  /// The backward of what `forward` kept; gradients go to context.gradients.
  void backward(RankContext& context, const Batch& batch, SavedStore& saved) const;
  /// The residual stream [T, H] behind the last block, without loss (generation, logits of
  /// `probe`).
  Tensor hidden(RankContext& context, const Batch& batch, SavedStore& saved,
                const Observer& observer = {}) const;

 private:
  ModelConfig config_;
  std::unique_ptr<RotaryTable> rotary_;  // segments point to it
  std::vector<Layer> layers_;
  HeadSegment* head_;
};

/// Builds the model for sequences of up to `positions` tokens (ConfigError if the model does not
/// allow them). Weights live elsewhere (sharding); this makes structure alone.
std::unique_ptr<Model> build_model(Device& device, const ModelConfig& config,
                                   const PrecisionRecipe& recipe, int64_t positions);

}  // namespace viaduct
