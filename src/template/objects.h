#pragma once
// The values that only a running template has.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "template/template_value.h"

namespace viaduct {

/// Arguments of a call, a filter or a test.
struct TemplateArguments {
  std::vector<TemplateValue> positional;
  std::vector<std::pair<std::string, TemplateValue>> named;
};

/// Anything that can be called.
struct TemplateCallable : TemplateObject {
  TemplateCallable(std::string called, std::function<TemplateValue(TemplateArguments&)> what)
      : name(std::move(called)), call(std::move(what)) {}
  std::string name;
  std::function<TemplateValue(TemplateArguments&)> call;
  bool is_macro = false;
};

/// `namespace(…)`: the one thing that a template can change.
struct TemplateNamespace : TemplateObject {
  TemplateMap members;
};

/// What filters such as map and select give: made when it is first asked for, gone when read.
struct TemplateGenerator : TemplateObject {
  std::function<std::vector<TemplateValue>()> make;
  std::vector<TemplateValue> items;
  size_t next = 0;
  bool made = false;

  /// Moves the rest out.
  std::vector<TemplateValue> take();
  /// The next item; nothing at the end.
  std::optional<TemplateValue> take_one();

 private:
  void fill();
};

/// `loop` inside of a loop.
struct TemplateLoop : TemplateObject {
  std::vector<TemplateValue> items;
  size_t index = 0;  // of the item now
  int level = 0;     // of recursion
  std::optional<TemplateValue> changed;
  std::function<TemplateValue(TemplateArguments&)> recurse;  // empty: the loop is not recursive
};

/// Python's name of an object's type.
std::string object_name(const TemplateObject& object);

}  // namespace viaduct
