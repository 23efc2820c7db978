#pragma once
// Arguments by position or name, matched to the parameters of a function, filter or method.

#include <initializer_list>
#include <string>
#include <vector>

#include "template/objects.h"

namespace viaduct::jinja {

class Parameters {
 public:
  /// TemplateFault for too many arguments, an unknown name, a value that is given twice, or fewer
  /// than the `required` first ones.
  Parameters(const char* function, const TemplateArguments& arguments,
             std::initializer_list<const char*> names, size_t required = 0);

  bool has(size_t i) const { return values_[i] != nullptr; }
  const TemplateValue& operator[](size_t i) const { return *values_[i]; }
  TemplateValue get(size_t i, TemplateValue standard) const {
    return has(i) ? *values_[i] : std::move(standard);
  }
  bool is_true(size_t i) const;
  /// TemplateFault unless it is an integer.
  int64_t integer(size_t i, int64_t standard) const;
  /// TemplateFault unless it is a text.
  const std::string& text(size_t i) const;

 private:
  const char* function_;
  std::vector<const TemplateValue*> values_;
};

}  // namespace viaduct::jinja
