// +, -, *, /, //, % and ** as in Python; integers have 64 bits, and more is an error.

#include <cmath>

#include "template/format.h"
#include "template/operators.h"
#include "template/printing.h"

namespace viaduct::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void fail_types(Operation operation, const TemplateValue& a, const TemplateValue& b) {
  check_defined(a);
  check_defined(b);
  template_fault("unsupported operand types for {}: '{}' and '{}'",
                 kSymbols[static_cast<int>(operation)], type_name(a), type_name(b));
}

[[noreturn]] void fail_large() {
  template_fault("an integer of more than 64 bits");
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) template_fault("integer division or modulo by zero");
  if (a == INT64_MIN && b == -1) fail_large();
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t modulo(int64_t a, int64_t b) {
  if (b == 0) template_fault("integer division or modulo by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

TemplateValue integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) template_fault("0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  for (int64_t factor = base;;) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, factor, &result)) fail_large();
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(factor, factor, &factor)) fail_large();
  }
}

TemplateValue of_integers(Operation operation, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (operation) {
    case Operation::add:
      if (__builtin_add_overflow(a, b, &result)) fail_large();
      return result;
    case Operation::subtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_large();
      return result;
    case Operation::multiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_large();
      return result;
    case Operation::divide:
      if (b == 0) template_fault("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case Operation::floor_divide:
      return floor_divide(a, b);
    case Operation::modulo:
      return modulo(a, b);
    default:
      return integer_power(a, b);
  }
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0) return (rest < 0) != (b < 0) ? rest + b : rest;
  return std::copysign(0.0, b);
}

TemplateValue of_floats(Operation operation, double a, double b) {
  switch (operation) {
    case Operation::add:
      return a + b;
    case Operation::subtract:
      return a - b;
    case Operation::multiply:
      return a * b;
    case Operation::divide:
      if (b == 0) template_fault("float division by zero");
      return a / b;
    case Operation::floor_divide: {
      if (b == 0) template_fault("float floor division by zero");
      const double rest = float_modulo(a, b);
      const double quotient = (a - rest) / b;
      if (quotient == 0) return std::copysign(0.0, a / b);
      const double floor = std::floor(quotient);
      return quotient - floor > 0.5 ? floor + 1 : floor;
    }
    case Operation::modulo:
      if (b == 0) template_fault("float modulo by zero");
      return float_modulo(a, b);
    default: {
      if (a == 0 && b < 0) template_fault("0 cannot be raised to a negative power");
      if (a < 0 && std::floor(b) != b) template_fault("complex numbers are not supported");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        template_fault("the result of ** is too large");
      }
      return result;
    }
  }
}

TemplateValue repeated(Runtime& runtime, const TemplateValue& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (value.is_text()) {
    const std::string& text = value.as_text();
    if (!text.empty() && count > INT64_MAX / static_cast<int64_t>(text.size())) {
      template_fault("a text of too many characters");
    }
    runtime.budget.make_text(text.size() * static_cast<size_t>(count));
    std::string result;
    result.reserve(text.size() * static_cast<size_t>(count));
    for (int64_t i = 0; i < count && !text.empty(); ++i) result += text;
    return {std::move(result), value.is_markup()};
  }
  const TemplateList& list = value.as_list();
  if (!list.items.empty() && count > (int64_t{1} << 32) / static_cast<int64_t>(list.items.size())) {
    template_fault("a list of too many items");
  }
  runtime.budget.make(list.items.size() * static_cast<size_t>(count) * sizeof(TemplateValue));
  std::vector<TemplateValue> items;
  for (int64_t i = 0; i < count && !list.items.empty(); ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return TemplateValue::list(std::move(items), list.form);
}

bool is_sequence(const TemplateValue& value) {
  return value.is_text() || (value.is_list() && (value.as_list().form == ListForm::list ||
                                                 value.as_list().form == ListForm::tuple));
}

TemplateValue joined(Runtime& runtime, const TemplateValue& a, const TemplateValue& b) {
  if (a.is_text() && b.is_text()) {
    const bool markup = a.is_markup() || b.is_markup();
    runtime.budget.make_text(a.as_text().size() + b.as_text().size());
    std::string text = markup && !a.is_markup() ? escaped_html(a.as_text()) : a.as_text();
    text += markup && !b.is_markup() ? escaped_html(b.as_text()) : b.as_text();
    return {std::move(text), markup};
  }
  if (a.is_list() && b.is_list() && a.as_list().form == b.as_list().form && is_sequence(a)) {
    runtime.budget.make((a.as_list().items.size() + b.as_list().items.size()) *
                        sizeof(TemplateValue));
    std::vector<TemplateValue> items = a.as_list().items;
    items.insert(items.end(), b.as_list().items.begin(), b.as_list().items.end());
    return TemplateValue::list(std::move(items), a.as_list().form);
  }
  fail_types(Operation::add, a, b);
}

}  // namespace

TemplateValue arithmetic(Runtime& runtime, Operation operation, const TemplateValue& a,
                         const TemplateValue& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return of_floats(operation, a.as_float(), b.as_float());
    return of_integers(operation, a.as_integer(), b.as_integer());
  }
  if (operation == Operation::add) return joined(runtime, a, b);
  if (operation == Operation::modulo && a.is_text()) {
    return TemplateValue(percent_format(runtime, a.as_text(), b));
  }
  if (operation == Operation::multiply) {
    if (is_sequence(a) && b.is_number() && !b.is_float())
      return repeated(runtime, a, b.as_integer());
    if (is_sequence(b) && a.is_number() && !a.is_float())
      return repeated(runtime, b, a.as_integer());
  }
  fail_types(operation, a, b);
}

}  // namespace viaduct::jinja
