#include "template/arguments.h"

#include <algorithm>
#include <cstring>

#include "template/operators.h"

namespace viaduct::jinja {

Parameters::Parameters(const char* function, const TemplateArguments& arguments,
                       std::initializer_list<const char*> names, size_t required)
    : function_(function), values_(names.size()) {
  if (arguments.positional.size() > names.size()) {
    template_fault("{} takes at most {} arguments, found {}", function, names.size(),
                   arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found =
        std::find_if(names.begin(), names.end(),
                     [&, &known = name](const char* other) { return known == other; });
    if (found == names.end()) template_fault("{} has no argument \"{}\"", function, name);
    const TemplateValue*& place = values_[static_cast<size_t>(found - names.begin())];
    if (place != nullptr) template_fault("{} has two values for \"{}\"", function, name);
    place = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!has(i)) template_fault("{} needs the argument \"{}\"", function, names.begin()[i]);
  }
}

bool Parameters::is_true(size_t i) const {
  return has(i) && jinja::is_true(*values_[i]);
}

int64_t Parameters::integer(size_t i, int64_t standard) const {
  if (!has(i)) return standard;
  const TemplateValue& value = *values_[i];
  if (!value.is_number() || value.is_float()) {
    check_defined(value);
    template_fault("{} expects an integer, found '{}'", function_, type_name(value));
  }
  return value.as_integer();
}

const std::string& Parameters::text(size_t i) const {
  if (!values_[i]->is_text()) {
    check_defined(*values_[i]);
    template_fault("{} expects a text, found '{}'", function_, type_name(*values_[i]));
  }
  return values_[i]->as_text();
}

}  // namespace viaduct::jinja
