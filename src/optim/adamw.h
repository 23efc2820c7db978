#pragma once
// The optimizer step over the parameters of a store: gradient norm, clipping, AdamW with decay by
// the parameter record.

#include <vector>

#include "ops/step_scalars.h"
#include "sharding/parameter_store.h"

namespace viaduct {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  // of parameters that decay (matrices)
};

class AdamW {
 public:
  /// Moments of zero for every parameter of the store, in the recipe's format.
  AdamW(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
        AdamWSettings settings);

  /// Σ g² over every main gradient, then norm, clip factor and skip flag into `scalars`
  /// (StepScalars block). Reads gradient_factor and clip_norm from it.
  void compute_norm(OpContext& context, const Tensor& scalars);
  /// One update of masters, moments and weights, nothing if the skip flag is set; a new generation
  /// of weights either way.
  void step(OpContext& context, const Tensor& scalars);

  const Tensor& first_moment(const Parameter& parameter) const {
    return states_.at(index(parameter)).first;
  }
  const Tensor& second_moment(const Parameter& parameter) const {
    return states_.at(index(parameter)).second;
  }
  const AdamWSettings& settings() const { return settings_; }

 private:
  struct State {
    Tensor first, second;
  };
  size_t index(const Parameter& parameter) const;

  ParameterStore& store_;
  AdamWSettings settings_;
  std::vector<State> states_;  // in the store's order
  Tensor norm_state_;
};

}  // namespace viaduct
