#include "sharding/weight_forms.h"

namespace viaduct {

WeightForms::WeightForms(const OpContext& context, const std::vector<const Parameter*>& parameters,
                         DType weight, bool packed, bool with_gradients)
    : context_(context), weight_(weight), packed_(packed) {
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
  convert_operand(context_, {canonical, held.operand});
  held.generation = generation;
}

OperandForm WeightForms::wanted(const Parameter& parameter, WeightUse use, int64_t run) const {
  const bool product = use == WeightUse::forward || use == WeightUse::data_gradient;
  if (!product || !parameter.multiplied) return {};
  GemmRequest request;
  request.form = use == WeightUse::forward ? GemmForm::forward : GemmForm::data_gradient;
  request.dtype = weight_;
  request.n = parameter.shape[0], request.k = parameter.shape[1];
  request.run = run;
  request.packed = packed_;
  return gemm_operand_forms(context_.ops, request).b;
}

WeightForms::Derived& WeightForms::derived(const Parameter& parameter, const OperandForm& form) {
  std::vector<size_t>& places = by_parameter_[&parameter];
  for (const size_t place : places)
    if (forms_[place].operand.form() == form) return forms_[place];
  places.push_back(forms_.size());
  forms_.push_back(
      {allocate_operand(context_, form, weight_, parameter.shape, MemoryTag::derived_weights)});
  return forms_.back();
}

}  // namespace viaduct
