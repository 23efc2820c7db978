#pragma once
// The forms in which matrix products read weights (ops/gemm.h), beside the canonical ones: tiles,
// quantized values. The ops say which form each product wants; it is made at its first use in a
// generation, from the whole canonical weight, and all micro-batches of the step read it.

#include <unordered_map>
#include <vector>

#include "comm/parallel_groups.h"
#include "nn/access.h"
#include "nn/delayed_scales.h"
#include "ops/gemm.h"
#include "precision/recipe.h"

namespace viaduct {

class WeightForms {
 public:
  /// Memory on the context's device for the forms of those of `parameters` that are multiplied:
  /// for the forward and, where there are gradients, for the data gradient. `packed`: also those
  /// that products only read faster. `held`: the memory stays allocated from now on; otherwise from
  /// the making of a form until `forget`. `groups`: the ranks that have the other parts of a
  /// weight,
  /// its tensor ranks, make a form with one scale for the whole weight at the same time. `delayed`:
  /// such scales come from earlier steps; null: from the weights. Each expert's weight is an
  /// operand of its own: forms of them are stacks (tensor/operand.h).
  WeightForms(const OpContext& context, const std::vector<const Parameter*>& parameters,
              const PrecisionRecipe& recipe, const ParallelGroups& groups, bool packed,
              bool with_gradients, bool held = true, DelayedScales* delayed = nullptr);

  /// The weight as products of `use` read it in runs of `run` columns. `canonical`: that of
  /// `generation`, and the answer for every other use. `place`: the parameter's own number, the
  /// same each time, from 0 on without large gaps: what products want of it is remembered by that.
  Operand form(const Parameter& parameter, size_t place, WeightUse use, int64_t run,
               const Tensor& canonical, int64_t generation);
  /// Makes all missing forms of the weight now, instead of at their first use.
  void make(const Parameter& parameter, const Tensor& canonical, int64_t generation);
  /// Forms are made once more at their next use: a graph that is captured from here on then has it.
  void again();
  /// By form, whether it holds the weight of `generation`.
  std::vector<bool> made(int64_t generation) const;
  /// A graph has made these forms of `generation`.
  void set_made(const std::vector<bool>& made, int64_t generation);
  /// Gives up the weight's forms and their memory.
  void forget(const Parameter& parameter);

 private:
  struct Derived {
    const Parameter* parameter = nullptr;
    OperandForm form;
    Operand operand;          // undefined while it has no memory
    int64_t generation = -1;  // whose weight it holds; -1: none
  };
  DType format(const Parameter& parameter) const {
    return parameter.format.value_or(recipe_.weight);
  }
  /// The last answer for a parameter and a kind of product. It depends on nothing that changes.
  struct Remembered {
    static constexpr int32_t kUnknown = -2, kCanonical = -1;
    int32_t form = kUnknown;  // or its place in forms_
    int64_t run = 0;          // columns that this is the answer for
  };
  Remembered& remembered(size_t place, WeightUse use);
  /// The place in forms_ of the form that is wanted, or Remembered::kCanonical.
  int32_t find(const Parameter& parameter, WeightUse use, int64_t run);
  Operand allocate(const Derived& held) const;
  OperandForm wanted(const Parameter& parameter, WeightUse use, int64_t run) const;
  /// Its place in forms_.
  size_t derived(const Parameter& parameter, const OperandForm& form);
  void update(Derived& held, const Tensor& canonical, int64_t generation);

  /// The largest magnitude that the scale of the whole weight is made for, of which `canonical` is
  /// this rank's part; f32 [1], or [E'] of experts. Of a frozen weight its own, also where scales
  /// are delayed.
  Tensor amax(const Parameter& parameter, const Tensor& canonical);

  OpContext context_;
  PrecisionRecipe recipe_;
  ParallelGroups groups_;
  bool packed_, held_;
  DelayedScales* delayed_;
  std::vector<Derived> forms_;  // in the order of their making
  std::unordered_map<const Parameter*, std::vector<size_t>> by_parameter_;  // places in forms_
  // Twice as many as places: of the forward's products and of the data gradient's. A step finds
  // what it wants here, beside that of the weights that it reads before and after.
  std::vector<Remembered> remembered_;
};

}  // namespace viaduct
