#pragma once
// Where the weights and gradients of a rank live when nothing is sharded: flat buffers of canonical
// weights, main gradients and, where the weight format is not the master's, FP32 masters.
// Implements what `nn` asks for.

#include <cstdint>
#include <map>
#include <vector>

#include "nn/access.h"
#include "precision/recipe.h"

namespace viaduct {

class ParameterStore final : public WeightAccess, public GradientAccess {
 public:
  /// Buffers for the parameters, in this order (the order of first use), each aligned to 64 bytes.
  /// Nothing is initialized. `with_gradients` false: weights alone (generation, conversion).
  ParameterStore(Device& device, const PrecisionRecipe& recipe,
                 std::vector<const Parameter*> parameters, bool with_gradients);

  const std::vector<const Parameter*>& parameters() const { return parameters_; }

  /// What the optimizer updates; the weight itself where the recipe has no separate master.
  const Tensor& master(const Parameter& parameter) const { return entry(parameter).master; }
  /// The canonical weight, and the accumulated main gradient.
  const Tensor& weight(const Parameter& parameter) const { return entry(parameter).weight; }
  const Tensor& main_gradient(const Parameter& parameter) const {
    return entry(parameter).gradient;
  }

  /// The masters changed outside the optimizer (initialization, loading): weights are written anew
  /// from them.
  void publish_masters(OpContext& context);
  /// Weights change from here on (the optimizer wrote them): a new generation. ShapeError while a
  /// weight is acquired.
  void advance_generation();
  int64_t generation() const { return generation_; }

  /// Gradients of the step start from zero.
  void begin_step(OpContext& context);
  /// Parameters that nothing contributed to have a zero gradient from here on. ShapeError if a
  /// contribution is open.
  void finish_gradients(OpContext& context);

  Tensor acquire(const Parameter& parameter, WeightUse use) override;
  void release(const Parameter& parameter, WeightUse use) override;
  Destination gradient(const Parameter& parameter) override;
  void done(const Parameter& parameter) override;

 private:
  struct Entry {
    Tensor weight, master, gradient;
    int acquired = 0;
    bool touched = false, open = false;  // gradient: written in this step; being written now
  };
  const Entry& entry(const Parameter& parameter) const;
  Entry& entry(const Parameter& parameter);

  std::vector<const Parameter*> parameters_;
  std::map<const Parameter*, Entry> entries_;
  int64_t generation_ = 0;
};

}  // namespace viaduct
