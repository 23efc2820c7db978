#include "sharding/weight_forms.h"

#include "ops/largest_magnitude.h"
#include "ops/quantized_forms.h"

namespace viaduct {

WeightForms::WeightForms(const OpContext& context, const std::vector<const Parameter*>& parameters,
                         const PrecisionRecipe& recipe, const ParallelGroups& groups, bool packed,
                         bool with_gradients, bool held, DelayedScales* delayed)
    : context_(context),
      recipe_(recipe),
      groups_(groups),
      packed_(packed),
      held_(held),
      delayed_(delayed) {
  for (const Parameter* parameter : parameters) {
    for (const WeightUse use : {WeightUse::forward, WeightUse::data_gradient}) {
      if (use == WeightUse::data_gradient && !with_gradients) continue;
      find(*parameter, use, 0);
    }
  }
}

Operand WeightForms::form(const Parameter& parameter, size_t place, WeightUse use, int64_t run,
                          const Tensor& canonical, int64_t generation) {
  if (use != WeightUse::forward && use != WeightUse::data_gradient) return canonical;
  Remembered& known = remembered(place, use);
  if (known.form == Remembered::kUnknown || known.run != run)
    known = {find(parameter, use, run), run};
  if (known.form == Remembered::kCanonical) return canonical;
  Derived& held = forms_[static_cast<size_t>(known.form)];
  update(held, canonical, generation);
  return held.operand;
}

WeightForms::Remembered& WeightForms::remembered(size_t place, WeightUse use) {
  const size_t i = 2 * place + (use == WeightUse::forward ? 0 : 1);
  if (i >= remembered_.size()) remembered_.resize(2 * place + 2);
  return remembered_[i];
}

int32_t WeightForms::find(const Parameter& parameter, WeightUse use, int64_t run) {
  const OperandForm form = wanted(parameter, use, run);
  return form.plain() ? Remembered::kCanonical : static_cast<int32_t>(derived(parameter, form));
}

void WeightForms::make(const Parameter& parameter, const Tensor& canonical, int64_t generation) {
  for (const size_t place : by_parameter_[&parameter]) update(forms_[place], canonical, generation);
}

void WeightForms::update(Derived& held, const Tensor& canonical, int64_t generation) {
  if (held.generation == generation) return;
  if (!held.operand) held.operand = allocate(held);
  const bool whole = has_matrix_scale(held.form);
  const Tensor largest = whole ? amax(*held.parameter, canonical) : Tensor();
  const int64_t count = held.operand.count(), rows = canonical.dim(0) / count;
  for (int64_t i = 0; i < count; ++i)
    convert_operand(context_, {canonical.slice(0, i * rows, rows), held.operand.member(i),
                               whole ? largest.slice(0, i, 1) : largest});
  held.generation = generation;
}

Tensor WeightForms::amax(const Parameter& parameter, const Tensor& canonical) {
  // A frozen weight is quantized once, when there is no history of it yet.
  if (delayed_ != nullptr && parameter.trained)
    return delayed_->note(context_, parameter, LayerOperand::weight, canonical);
  const Tensor largest =
      context_.allocate(DType::f32, {operands_of(parameter)}, MemoryTag::derived_weights);
  largest_magnitude(context_, {canonical, largest});
  if (recipe_.amax.source != AmaxSource::own)
    groups_.of(parameter.grid, {Axis::tp})->all_reduce(largest, ReduceOp::max).wait();
  return largest;
}

void WeightForms::again() {
  for (Derived& held : forms_) held.generation = -1;
}

std::vector<bool> WeightForms::made(int64_t generation) const {
  std::vector<bool> made;
  for (const Derived& held : forms_) made.push_back(held.generation == generation);
  return made;
}

void WeightForms::set_made(const std::vector<bool>& made, int64_t generation) {
  for (size_t i = 0; i < made.size(); ++i) forms_[i].generation = made[i] ? generation : -1;
}

void WeightForms::forget(const Parameter& parameter) {
  for (const size_t place : by_parameter_[&parameter]) {
    forms_[place].operand = Operand();
    forms_[place].generation = -1;
  }
}

Operand WeightForms::allocate(const Derived& held) const {
  const int64_t count = operands_of(*held.parameter);
  Shape matrix = held.parameter->shape;
  matrix[0] /= count;
  return allocate_stack(context_, count, held.form, format(*held.parameter), matrix,
                        MemoryTag::derived_weights);
}

OperandForm WeightForms::wanted(const Parameter& parameter, WeightUse use, int64_t run) const {
  const GemmForm of = use == WeightUse::forward ? GemmForm::forward : GemmForm::data_gradient;
  if (parameter.experts.any() && parameter.quantized)
    return quantized_forms(of, recipe_.products).b;
  // The factors of adapters are read by products too.
  const bool factor = parameter.adapter && parameter.shape.rank() == 2 && !parameter.experts.any();
  if (!parameter.multiplied && !factor) return {};
  GemmRequest request;
  request.form = of;
  request.dtype = format(parameter);
  request.n = parameter.shape[0], request.k = parameter.shape[1];
  request.run = run;
  request.packed = packed_;
  if (parameter.quantized) request.quantization = recipe_.products;
  return gemm_operand_forms(context_.ops, request).b;
}

size_t WeightForms::derived(const Parameter& parameter, const OperandForm& form) {
  std::vector<size_t>& places = by_parameter_[&parameter];
  for (const size_t place : places)
    if (forms_[place].form == form) return place;
  places.push_back(forms_.size());
  Derived& made = forms_.emplace_back(Derived{&parameter, form});
  if (held_) made.operand = allocate(made);
  return forms_.size() - 1;
}

}  // namespace viaduct
