#pragma once
// The methods of Python's texts, lists and maps that do not change them.

#include <string>

#include "template/runtime.h"

namespace viaduct::jinja {

using Method = TemplateValue (*)(Runtime& runtime, const TemplateValue& self,
                                 TemplateArguments& arguments);

/// Null without such a method. `changes` is set for methods that would change the value: the
/// sandbox hides them.
Method find_method(const TemplateValue& self, const std::string& name, bool& changes);
Method find_text_method(const std::string& name);

}  // namespace viaduct::jinja
