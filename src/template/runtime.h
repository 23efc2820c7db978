#pragma once
// What filters, tests, methods and functions may ask of the rendering that they are part of.

#include <optional>
#include <string>
#include <vector>

#include "template/budget.h"
#include "template/objects.h"
#include "template/template_clock.h"
#include "template/template_value.h"

namespace viaduct::jinja {

class Runtime {
 public:
  explicit Runtime(const TemplateLimits& limits) : budget(limits) {}
  virtual ~Runtime() = default;

  virtual TemplateValue call(const TemplateValue& function, TemplateArguments& arguments) = 0;
  /// A filter or a test by its name; TemplateFault if there is none.
  virtual TemplateValue filter(const std::string& name, const TemplateValue& value,
                               TemplateArguments& arguments) = 0;
  virtual bool test(const std::string& name, const TemplateValue& value,
                    TemplateArguments& arguments) = 0;

  TemplateBudget budget;
  /// Whether what is done now is undone afterwards (prefix_watch.h): values that are there before
  /// must not change.
  bool forked = false;
  std::optional<TemplateClock> clock;
  /// Namespaces made so far. Their members may be circular, so they are emptied at the end.
  std::vector<std::shared_ptr<TemplateNamespace>> namespaces;
};

/// What iterating over a value gives, as Python does; TemplateFault for what cannot be iterated.
std::vector<TemplateValue> iterate(Runtime& runtime, const TemplateValue& value);
/// Python's len().
int64_t length_of(Runtime& runtime, const TemplateValue& value);
/// `object.name`, with the rules of Jinja's sandbox.
TemplateValue get_attribute(Runtime& runtime, const TemplateValue& object, const std::string& name);
/// `object[index]`.
TemplateValue get_item(Runtime& runtime, const TemplateValue& object, const TemplateValue& index);
/// `object[begin:end:step]`, None for what is not given.
TemplateValue get_slice(Runtime& runtime, const TemplateValue& object, const TemplateValue& begin,
                        const TemplateValue& end, const TemplateValue& step);
/// A generator that `make` fills when it is read.
TemplateValue make_generator(int depth, std::function<std::vector<TemplateValue>()> make);
TemplateValue make_function(std::string name,
                            std::function<TemplateValue(TemplateArguments&)> call);
/// TemplateFault if the value is undefined: its use, where Python raises UndefinedError.
void check_defined(const TemplateValue& value);

}  // namespace viaduct::jinja
