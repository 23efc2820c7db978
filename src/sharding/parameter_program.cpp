// The parameter store beside a program that is captured into a graph. The graph does what the
// program gave to the device; what the program noted on the host is noted here in its place. A
// captured program must not depend on what happened to be done before it in the step that captured
// it (weights that an evaluation has gathered are not whole in the next step), so it does all of
// its part each time.

#include "sharding/parameter_store.h"

namespace viaduct {

void ParameterStore::begin_program() {
  weights_->begin_program();
}

void ParameterStore::end_program() {
  weights_->end_program();
  gradients_->end_program();
  program_ = {};
  for (const Parameter* parameter : parameters()) {
    const ParameterEntry& e = entries_.at(*parameter);
    program_.gradients.push_back({e.contributions, e.rounded});
  }
  if (forms_) program_.forms = forms_->made(generation());
}

void ParameterStore::program_ran() {
  for (size_t i = 0; i < parameters().size(); ++i) {
    ParameterEntry& e = entries_.at(*parameters()[i]);
    e.contributions = program_.gradients.at(i).contributions;
    e.rounded = program_.gradients[i].rounded;
  }
  gradients_->program_ran();
  weights_->program_ran();
  if (forms_) forms_->set_made(program_.forms, generation());
}

}  // namespace viaduct
