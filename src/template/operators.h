#pragma once
// Python's operators.

#include "template/runtime.h"
#include "template/syntax_tree.h"

namespace viaduct::jinja {

bool is_true(const TemplateValue& value);
/// Python's ==.
bool equals(Runtime& runtime, const TemplateValue& a, const TemplateValue& b);
/// Whether a < b; TemplateFault where the types have no order.
bool less(Runtime& runtime, const TemplateValue& a, const TemplateValue& b);
bool contains(Runtime& runtime, const TemplateValue& container, const TemplateValue& item);
bool compare(Runtime& runtime, Operation operation, const TemplateValue& a, const TemplateValue& b);
/// +, -, *, /, //, %, **.
TemplateValue arithmetic(Runtime& runtime, Operation operation, const TemplateValue& a,
                         const TemplateValue& b);
TemplateValue negative(const TemplateValue& value);

}  // namespace viaduct::jinja
