// Jinja's tests: what stands behind `is`.

#include <cmath>

#include "template/arguments.h"
#include "template/filters.h"
#include "template/operators.h"
#include "template/printing.h"
#include "template/text_search.h"

namespace viaduct::jinja {
namespace {

using Arguments = TemplateArguments;

template <bool (TemplateValue::*holds)() const>
bool kind(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("this test", arguments, {});
  return (value.*holds)();
}
bool defined(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("defined", arguments, {});
  return !value.is_undefined();
}
bool is_true_test(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("true", arguments, {});
  return value.is_bool() && value.as_bool();
}
bool is_false_test(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("false", arguments, {});
  return value.is_bool() && !value.as_bool();
}
bool is_generator(const TemplateValue& value) {
  return value.is_object() &&
         dynamic_cast<const TemplateGenerator*>(value.as_object().get()) != nullptr;
}
bool sequence(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("sequence", arguments, {});
  if (value.is_list()) {
    return value.as_list().form <= ListForm::tuple || value.as_list().form == ListForm::range;
  }
  // As in Jinja, an undefined name has a length and items.
  return value.is_text() || value.is_map() || value.is_undefined();
}
bool iterable(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("iterable", arguments, {});
  return value.is_list() || value.is_text() || value.is_map() || value.is_undefined() ||
         is_generator(value);
}
bool callable(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("callable", arguments, {});
  if (value.is_undefined()) return true;
  return value.is_object() && (dynamic_cast<const TemplateCallable*>(value.as_object().get()) ||
                               dynamic_cast<const TemplateLoop*>(value.as_object().get()));
}
bool same_as(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("sameas", arguments, {"other"}, 1);
  return value.same_object(given[0]);
}
bool escaped(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("escaped", arguments, {});
  return value.is_markup();
}
bool in(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("in", arguments, {"seq"}, 1);
  return contains(runtime, given[0], value);
}
TemplateValue remainder(Runtime& runtime, const TemplateValue& value,
                        const TemplateValue& divisor) {
  return arithmetic(runtime, Operation::modulo, value, divisor);
}
bool odd(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("odd", arguments, {});
  return equals(runtime, remainder(runtime, value, 2), 1);
}
bool even(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("even", arguments, {});
  return equals(runtime, remainder(runtime, value, 2), 0);
}
bool divisible_by(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("divisibleby", arguments, {"num"}, 1);
  return equals(runtime, remainder(runtime, value, given[0]), 0);
}
bool lower(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("lower", arguments, {});
  return is_lower(to_text(runtime, value));
}
bool upper(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("upper", arguments, {});
  return is_upper(to_text(runtime, value));
}
template <Operation operation>
bool comparison(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("a comparison", arguments, {"other"}, 1);
  return compare(runtime, operation, value, given[0]);
}
bool has_filter(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("filter", arguments, {});
  return value.is_text() &&
         (find_filter(value.as_text()) != nullptr || is_missing_filter(value.as_text()));
}
bool has_test(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("test", arguments, {});
  return value.is_text() && find_test(value.as_text()) != nullptr;
}

}  // namespace

Test find_test(std::string_view name) {
  static const std::unordered_map<std::string_view, Test> kTests = {
      {"defined", defined},
      {"undefined", kind<&TemplateValue::is_undefined>},
      {"none", kind<&TemplateValue::is_none>},
      {"boolean", kind<&TemplateValue::is_bool>},
      {"true", is_true_test},
      {"false", is_false_test},
      {"integer", kind<&TemplateValue::is_integer>},
      {"float", kind<&TemplateValue::is_float>},
      {"number", kind<&TemplateValue::is_number>},
      {"string", kind<&TemplateValue::is_text>},
      {"mapping", kind<&TemplateValue::is_map>},
      {"sequence", sequence},
      {"iterable", iterable},
      {"callable", callable},
      {"sameas", same_as},
      {"escaped", escaped},
      {"in", in},
      {"odd", odd},
      {"even", even},
      {"divisibleby", divisible_by},
      {"lower", lower},
      {"upper", upper},
      {"filter", has_filter},
      {"test", has_test},
      {"==", comparison<Operation::equal>},
      {"eq", comparison<Operation::equal>},
      {"equalto", comparison<Operation::equal>},
      {"!=", comparison<Operation::unequal>},
      {"ne", comparison<Operation::unequal>},
      {">", comparison<Operation::greater>},
      {"gt", comparison<Operation::greater>},
      {"greaterthan", comparison<Operation::greater>},
      {">=", comparison<Operation::greater_equal>},
      {"ge", comparison<Operation::greater_equal>},
      {"<", comparison<Operation::less>},
      {"lt", comparison<Operation::less>},
      {"lessthan", comparison<Operation::less>},
      {"<=", comparison<Operation::less_equal>},
      {"le", comparison<Operation::less_equal>},
  };
  const auto found = kTests.find(name);
  return found == kTests.end() ? nullptr : found->second;
}

}  // namespace viaduct::jinja
