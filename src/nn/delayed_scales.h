#pragma once
// The scales of delayed scaling: for the operands of every layer with quantized products, the
// magnitudes of earlier steps, the ones chosen for this step, and those recorded in this step. They
// change only in `finish_step`, so all micro-batches of a step quantize alike. Each expert of a
// layer has operands of its own; every rank has those of all experts.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "comm/parallel_groups.h"
#include "nn/parameter.h"
#include "ops/dispatch.h"
#include "precision/recipe.h"

namespace viaduct {

/// An operand of a layer's products, or of those of the attention before a projection.
enum class LayerOperand { input, weight, output_gradient, query, key, value, attended_gradient };
/// Those of every layer, and then those of attention.
inline constexpr std::array kLayerOperands{LayerOperand::input, LayerOperand::weight,
                                           LayerOperand::output_gradient};
inline constexpr std::array kAttentionOperands{
    LayerOperand::query, LayerOperand::key, LayerOperand::value, LayerOperand::attended_gradient};

class DelayedScales {
 public:
  /// For those of `parameters` whose products are quantized, and for attention before a projection
  /// if the recipe quantizes its products. Every scale is 1 until its tensor has
  /// a magnitude, as in Transformer Engine. `groups`: maxima of a step are made over the ranks that
  /// the recipe says; all ranks of the run have such an object.
  DelayedScales(const OpContext& context, const std::vector<const Parameter*>& parameters,
                const PrecisionRecipe& recipe, const ParallelGroups& groups);

  /// The amax f32 [1] that the operand's scale is made for in this step; of experts' weights [E'],
  /// for those here.
  Tensor chosen(const Parameter& parameter, LayerOperand operand) const;
  /// The same, but infinity where the operand's largest magnitude `amax` is, so that results show
  /// it.
  Tensor chosen_for(OpContext& context, const Parameter& parameter, LayerOperand operand,
                    const Tensor& amax) const;
  /// The same. Notes the magnitude of the matrix, which is this rank's part of the operand: the
  /// largest of a step, for a weight the last.
  Tensor note(OpContext& context, const Parameter& parameter, LayerOperand operand,
              const Tensor& matrix);
  /// The same for an operand whose largest magnitude f32 [1] ([E']) is known.
  Tensor note_amax(OpContext& context, const Parameter& parameter, LayerOperand operand,
                   const Tensor& amax);
  /// The end of a step: maxima over the ranks of the recorded magnitudes, one reduction of all
  /// tensors for each axis, and the amaxes of the next step. Every rank of the groups calls it.
  void finish_step(OpContext& context);

  // For checkpoints.

  /// "blocks.3.attention.qkv.weight/input", "blocks.3.experts.up.weight/input/5" of expert 5: for
  /// each tensor, in the order of `values`.
  std::vector<std::string> names() const;
  /// f32 [N, 1 + L] in host memory, the same on all ranks of a stage: of each tensor the chosen
  /// amax and the history, latest first. Every rank of the stage calls it.
  Tensor values(OpContext& context) const;
  /// Restores these values of tensor `i`: f32 [1 + M] in host memory, of whose history the latest
  /// steps are used. Clears the recorded magnitudes.
  void restore(size_t i, const Tensor& values);

 private:
  /// An operand that has a history.
  struct Entry {
    const Parameter* parameter;
    LayerOperand operand;
    int64_t expert = -1;  // −1: the layer has none
  };
  void add(const Parameter& parameter, LayerOperand operand);
  /// Of the operand, or of the first expert's here.
  size_t place(const Parameter& parameter, LayerOperand operand) const;
  /// The operand's values among `values`, or those of the experts here.
  Tensor own(const Tensor& values, const Parameter& parameter, LayerOperand operand) const {
    return values.slice(0, static_cast<int64_t>(place(parameter, operand)),
                        parameter.experts.any() ? parameter.experts.here : 1);
  }
  Tensor at(const Tensor& values, size_t place) const {
    return values.slice(0, static_cast<int64_t>(place), 1);
  }

  Device& device_;
  AmaxSettings settings_;
  ParallelGroups groups_;
  /// The operands of a parameter follow each other, and those of experts all others.
  std::vector<Entry> entries_;
  int64_t of_experts_ = 0;                    // how many are experts'
  bool own_grid_ = false;                     // whose ranks are those of the expert grid
  std::map<const Parameter*, size_t> first_;  // place of a parameter's first operand
  Tensor noted_, history_, chosen_;           // f32 [N], [N, L], [N]
};

}  // namespace viaduct
