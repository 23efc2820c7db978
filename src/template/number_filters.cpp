// Filters about numbers and single values.

#include <charconv>
#include <cmath>

#include "template/arguments.h"
#include "template/filters.h"
#include "template/operators.h"
#include "template/printing.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

using Arguments = TemplateArguments;

/// The digits of a Python literal of a number: stripped, without single underscores. Nothing if the
/// underscores are wrong.
std::optional<std::string> plain_number(const std::string& text) {
  std::string plain;
  const std::string_view stripped = strip(text, true, true);
  for (size_t i = 0; i < stripped.size(); ++i) {
    if (stripped[i] != '_') {
      plain += stripped[i];
    } else if (i == 0 || i + 1 == stripped.size() || stripped[i - 1] == '_' ||
               std::isalnum(static_cast<unsigned char>(stripped[i + 1])) == 0) {
      return std::nullopt;
    }
  }
  return plain;
}

std::optional<int64_t> parse_integer(const std::string& text, int64_t base) {
  const auto plain = plain_number(text);
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits[0] == '-';
  if (digits[0] == '-' || digits[0] == '+') digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char form = static_cast<char>(digits[1] | 0x20);
    const int64_t own = form == 'x' ? 16 : form == 'o' ? 8 : form == 'b' ? 2 : 0;
    if (own != 0 && (base == own || base == 0)) {
      digits.remove_prefix(2);
      base = own;
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) template_fault("int: the base is not between 2 and 36");
  uint64_t value = 0;
  const auto [end, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  if (problem != std::errc() || value > static_cast<uint64_t>(INT64_MAX)) {
    template_fault("an integer of more than 64 bits");
  }
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

std::optional<double> parse_float(const std::string& text) {
  const auto plain = plain_number(text);
  if (!plain || plain->empty() || plain->find_first_of("xXpP()") != std::string::npos) {
    return std::nullopt;
  }
  const char* begin = plain->c_str();
  char* end = nullptr;
  const double value = std::strtod(begin, &end);
  if (end != begin + plain->size()) return std::nullopt;
  return value;
}

TemplateValue to_integer(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("int", arguments, {"default", "base"});
  check_defined(value);
  const TemplateValue standard = given.get(0, 0);
  const auto of_float = [&](double number) -> TemplateValue {
    if (!std::isfinite(number)) return standard;
    if (std::abs(number) >= 0x1p63) template_fault("an integer of more than 64 bits");
    return static_cast<int64_t>(number);
  };
  if (value.is_float()) {
    if (std::isinf(value.as_float())) return standard;
    return of_float(value.as_float());
  }
  if (value.is_number()) return value.as_integer();
  if (!value.is_text()) return standard;
  if (const auto number = parse_integer(value.as_text(), given.integer(1, 10))) return *number;
  if (const auto number = parse_float(value.as_text())) return of_float(*number);
  return standard;
}

TemplateValue to_float(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("float", arguments, {"default"});
  check_defined(value);
  if (value.is_number()) return value.as_float();
  if (value.is_text()) {
    if (const auto number = parse_float(value.as_text())) return *number;
  }
  return given.get(0, 0.0);
}

TemplateValue absolute(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("abs", arguments, {});
  check_defined(value);
  if (value.is_float()) return std::abs(value.as_float());
  if (!value.is_number()) template_fault("abs needs a number, found '{}'", type_name(value));
  return value.as_integer() < 0 ? negative(value) : TemplateValue(value.as_integer());
}

TemplateValue round(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("round", arguments, {"precision", "method"});
  const int64_t precision = given.integer(0, 0);
  const std::string method = given.has(1) ? given.text(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    template_fault("round: the method is common, ceil or floor, not \"{}\"", method);
  }
  check_defined(value);
  if (!value.is_number()) template_fault("round needs a number, found '{}'", type_name(value));
  if (std::abs(precision) > 300) template_fault("round: a precision beyond 300");
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = value.as_float() * scale;
    return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
  }
  if (!value.is_float() && precision >= 0) return value.as_integer();
  const double number = value.as_float();
  if (!std::isfinite(number)) return number;
  if (precision >= 0) {
    return std::strtod(fmt::format("{:.{}f}", number, precision).c_str(), nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  const double rounded = std::nearbyint(number / scale) * scale;
  if (value.is_float()) return rounded;
  return static_cast<int64_t>(rounded);
}

TemplateValue default_value(Runtime&, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("default", arguments, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (given.is_true(1) && !is_true(value));
  return missing ? given.get(0, TemplateValue("")) : value;
}

TemplateValue attribute(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("attr", arguments, {"name"}, 1);
  const std::string name = to_text(runtime, given[0]);
  check_defined(value);
  if (value.is_map()) {
    // Unlike `value.name`, this never reads an entry.
    return get_attribute(runtime, TemplateValue::map({}), name);
  }
  return get_attribute(runtime, value, name);
}

}  // namespace

const FilterTable& number_filters() {
  static const FilterTable kFilters = {
      {"int", to_integer},        {"float", to_float},  {"abs", absolute},  {"round", round},
      {"default", default_value}, {"d", default_value}, {"attr", attribute}};
  return kFilters;
}

}  // namespace viaduct::jinja
