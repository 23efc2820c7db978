#include "sharding/weight_forms.h"

#include "ops/largest_magnitude.h"

namespace viaduct {

WeightForms::WeightForms(const OpContext& context, const std::vector<const Parameter*>& parameters,
                         const PrecisionRecipe& recipe, Communicator& tp, bool packed,
                         bool with_gradients, bool held, DelayedScales* delayed)
    : context_(context), recipe_(recipe), tp_(tp), packed_(packed), held_(held), delayed_(delayed) {
  for (const Parameter* parameter : parameters) {
    for (const WeightUse use : {WeightUse::forward, WeightUse::data_gradient}) {
      if (use == WeightUse::data_gradient && !with_gradients) continue;
      const OperandForm form = wanted(*parameter, use, 0);
      if (!form.plain()) derived(*parameter, form);
    }
  }
}

Operand WeightForms::form(const Parameter& parameter, WeightUse use, int64_t run,
                          const Tensor& canonical, int64_t generation) {
  const OperandForm form = wanted(parameter, use, run);
  if (form.plain()) return canonical;
  Derived& held = derived(parameter, form);
  update(held, canonical, generation);
  return held.operand;
}

void WeightForms::make(const Parameter& parameter, const Tensor& canonical, int64_t generation) {
  for (const size_t place : by_parameter_[&parameter]) update(forms_[place], canonical, generation);
}

void WeightForms::update(Derived& held, const Tensor& canonical, int64_t generation) {
  if (held.generation == generation) return;
  if (!held.operand) held.operand = allocate(held);
  const bool whole = has_matrix_scale(held.form);
  convert_operand(context_,
                  {canonical, held.operand, whole ? amax(*held.parameter, canonical) : Tensor()});
  held.generation = generation;
}

Tensor WeightForms::amax(const Parameter& parameter, const Tensor& canonical) {
  if (delayed_ != nullptr)
    return delayed_->note(context_, parameter, LayerOperand::weight, canonical);
  const Tensor largest = context_.allocate(DType::f32, {1}, MemoryTag::derived_weights);
  largest_magnitude(context_, {canonical, largest});
  if (recipe_.amax.source != AmaxSource::own) tp_.all_reduce(largest, ReduceOp::max).wait();
  return largest;
}

void WeightForms::forget(const Parameter& parameter) {
  for (const size_t place : by_parameter_[&parameter]) {
    forms_[place].operand = Operand();
    forms_[place].generation = -1;
  }
}

Operand WeightForms::allocate(const Derived& held) const {
  return allocate_operand(context_, held.form, format(*held.parameter), held.parameter->shape,
                          MemoryTag::derived_weights);
}

OperandForm WeightForms::wanted(const Parameter& parameter, WeightUse use, int64_t run) const {
  const bool product = use == WeightUse::forward || use == WeightUse::data_gradient;
  if (!product || !parameter.multiplied) return {};
  GemmRequest request;
  request.form = use == WeightUse::forward ? GemmForm::forward : GemmForm::data_gradient;
  request.dtype = format(parameter);
  request.n = parameter.shape[0], request.k = parameter.shape[1];
  request.run = run;
  request.packed = packed_;
  if (parameter.quantized) request.quantization = recipe_.products;
  return gemm_operand_forms(context_.ops, request).b;
}

WeightForms::Derived& WeightForms::derived(const Parameter& parameter, const OperandForm& form) {
  std::vector<size_t>& places = by_parameter_[&parameter];
  for (const size_t place : places)
    if (forms_[place].form == form) return forms_[place];
  places.push_back(forms_.size());
  Derived& made = forms_.emplace_back(Derived{&parameter, form});
  if (held_) made.operand = allocate(made);
  return made;
}

}  // namespace viaduct
