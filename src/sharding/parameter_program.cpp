// The parameter store beside a program that is captured into a graph. The graph does what the
// program gave to the device; what the program noted on the host is noted here in its place. A
// captured program must not depend on what happened to be done before it in the step that captured
// it (weights that an evaluation has gathered are not whole in the next step), so it does all of
// its part each time.

#include "sharding/parameter_store.h"

namespace viaduct {

void ParameterStore::begin_program() {
  // The program gathers each unit for its use, and frees it, so it ends as it begins: with none.
  if (shards_weights()) return keep_gathered({});
  const auto make_now = [&](const Parameter& parameter) {
    forms_->make(parameter, weight(parameter), generation_);
  };
  if (staging_) {
    // Weights that pass through the memory of gradients leave it before the program writes these.
    finish_gathers();
    for (const Parameter* parameter : parameters_)
      if (!passes_gradients(*parameter)) make_now(*parameter);
    return;
  }
  if (settings_.overlap_param_gather && !settings_.gather_with_optimizer_step)
    gather_->again();
  else
    gather_->finish();
  if (forms_) forms_->again();
}

void ParameterStore::end_program() {
  if (!staging_ && gather_) gather_->finish();
  program_ = {};
  if (shards_gradients()) {
    // Memory of whole gradients belongs to the program: none is left at its end.
    send_open_units(*context_);
    gradient_units_->finish_sent();
    program_.summed = gradient_units_->summed();
  } else {
    reduction_->finish_sent();
    program_.sent = reduction_->sent_count();
  }
  for (const Parameter* parameter : parameters_) {
    const Entry& e = entry(*parameter);
    program_.gradients.push_back({e.contributions, e.rounded});
  }
  if (forms_) program_.forms = forms_->made(generation_);
}

void ParameterStore::program_ran() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Entry& e = entry(*parameters_[i]);
    e.contributions = program_.gradients.at(i).contributions;
    e.rounded = program_.gradients[i].rounded;
  }
  if (shards_gradients()) {
    gradient_units_->summed_by_graph(program_.summed);
  } else {
    reduction_->sent_by_graph(program_.sent);
  }
  if (!staging_ && gather_) gather_->gathered();
  if (forms_) forms_->set_made(program_.forms, generation_);
}

}  // namespace viaduct
