#include "template/operators.h"

#include <algorithm>
#include <cmath>

#include "template/printing.h"

namespace viaduct::jinja {
namespace {

const char* shown(Operation operation) {
  switch (operation) {
    case Operation::less:
      return "<";
    case Operation::less_equal:
      return "<=";
    case Operation::greater:
      return ">";
    default:
      return ">=";
  }
}

bool is_ordered_list(const TemplateValue& value) {
  return value.is_list() &&
         (value.as_list().form == ListForm::list || value.as_list().form == ListForm::tuple);
}

/// −1, 0 or 1, or 2 for numbers without an order (NaN).
int order(Runtime& runtime, const TemplateValue& a, const TemplateValue& b, Operation operation) {
  runtime.budget.step();
  if (a.is_number() && b.is_number()) {
    if (!a.is_float() && !b.is_float()) {
      return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer();
    }
    const double x = a.as_float(), y = b.as_float();
    if (std::isnan(x) || std::isnan(y)) return 2;
    return x < y ? -1 : x > y;
  }
  if (a.is_text() && b.is_text()) {
    const int found = a.as_text().compare(b.as_text());  // UTF-8 has the order of its characters
    return found < 0 ? -1 : found > 0;
  }
  if (is_ordered_list(a) && is_ordered_list(b) && a.as_list().form == b.as_list().form) {
    const auto& x = a.as_list().items;
    const auto& y = b.as_list().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equals(runtime, x[i], y[i])) return order(runtime, x[i], y[i], operation);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  check_defined(a);
  check_defined(b);
  template_fault("'{}' is not supported between '{}' and '{}'", shown(operation), type_name(a),
                 type_name(b));
}

bool maps_equal(Runtime& runtime, const TemplateMap& a, const TemplateMap& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const TemplateMap::Entry& entry) {
    const TemplateValue* other = b.find(entry.first);
    return other != nullptr && equals(runtime, entry.second, *other);
  });
}

}  // namespace

bool is_true(const TemplateValue& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_float()) return value.as_float() != 0;
  if (value.is_number()) return value.as_integer() != 0;
  if (value.is_text()) return !value.as_text().empty();
  if (value.is_list()) return !value.as_list().items.empty();
  if (value.is_map()) return value.as_map().size() > 0;
  return true;
}

bool equals(Runtime& runtime, const TemplateValue& a, const TemplateValue& b) {
  runtime.budget.step();
  if (a.is_number() && b.is_number()) {
    if (!a.is_float() && !b.is_float()) return a.as_integer() == b.as_integer();
    return a.as_float() == b.as_float();
  }
  if (a.is_text() && b.is_text()) return a.as_text() == b.as_text();
  if (a.is_list() && b.is_list()) {
    if (a.as_list().form != b.as_list().form || a.as_list().form == ListForm::values) {
      return a.same_object(b);
    }
    const auto& x = a.as_list().items;
    const auto& y = b.as_list().items;
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!equals(runtime, x[i], y[i])) return false;
    }
    return true;
  }
  if (a.is_map() && b.is_map()) return maps_equal(runtime, a.as_map(), b.as_map());
  if (a.is_undefined() || a.is_none()) {
    return a.is_undefined() ? b.is_undefined() : b.is_none();
  }
  return a.same_object(b);
}

bool less(Runtime& runtime, const TemplateValue& a, const TemplateValue& b) {
  return order(runtime, a, b, Operation::less) == -1;
}

bool contains(Runtime& runtime, const TemplateValue& container, const TemplateValue& item) {
  if (container.is_text()) {
    if (!item.is_text()) {
      check_defined(item);
      template_fault("'in <text>' needs a text as its left operand, found '{}'", type_name(item));
    }
    runtime.budget.search(container.as_text().size(), item.as_text().size());
    return container.as_text().find(item.as_text()) != std::string::npos;
  }
  if (container.is_map()) return container.as_map().find(item) != nullptr;
  if (!container.is_list() && !container.is_undefined() && !container.is_object()) {
    template_fault("argument of type '{}' is not iterable", type_name(container));
  }
  if (container.is_list()) {
    const auto& items = container.as_list().items;
    return std::any_of(items.begin(), items.end(),
                       [&](const TemplateValue& other) { return equals(runtime, item, other); });
  }
  const std::vector<TemplateValue> items = iterate(runtime, container);
  return std::any_of(items.begin(), items.end(),
                     [&](const TemplateValue& other) { return equals(runtime, item, other); });
}

bool compare(Runtime& runtime, Operation operation, const TemplateValue& a,
             const TemplateValue& b) {
  switch (operation) {
    case Operation::equal:
      return equals(runtime, a, b);
    case Operation::unequal:
      return !equals(runtime, a, b);
    case Operation::in:
      return contains(runtime, b, a);
    case Operation::not_in:
      return !contains(runtime, b, a);
    default:
      break;
  }
  const int found = order(runtime, a, b, operation);
  if (found == 2) return false;
  if (operation == Operation::less) return found < 0;
  if (operation == Operation::less_equal) return found <= 0;
  if (operation == Operation::greater) return found > 0;
  return found >= 0;
}

TemplateValue negative(const TemplateValue& value) {
  check_defined(value);
  if (value.is_float()) return -value.as_float();
  if (!value.is_number()) template_fault("bad operand type for unary -: '{}'", type_name(value));
  if (value.as_integer() == INT64_MIN) template_fault("an integer of more than 64 bits");
  return -value.as_integer();
}

}  // namespace viaduct::jinja
