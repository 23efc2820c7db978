#include "config/convert.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace viaduct {
namespace {

template <class T>
bool parse_whole(std::string_view text, T& target) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_word(const Value& value, std::string_view lower, std::string_view title,
             std::string_view upper) {
  return value.is_plain(lower) || value.is_plain(title) || value.is_plain(upper);
}

}  // namespace

bool read_value(const Value& value, bool& target) {
  target = is_word(value, "true", "True", "TRUE");
  return target || is_word(value, "false", "False", "FALSE");
}

bool read_value(const Value& value, int64_t& target) {
  if (value.kind != Value::Kind::scalar || value.quoted) return false;
  if (parse_whole(value.scalar, target)) return true;
  double number = 0;  // 1e6, 3.0: exact integers in another notation
  if (!read_value(value, number) || std::floor(number) != number || std::abs(number) > 9e15)
    return false;
  target = static_cast<int64_t>(number);
  return true;
}

bool read_value(const Value& value, int& target) {
  int64_t wide = 0;
  if (!read_value(value, wide) || wide < std::numeric_limits<int>::min() ||
      wide > std::numeric_limits<int>::max()) {
    return false;
  }
  target = static_cast<int>(wide);
  return true;
}

bool read_value(const Value& value, double& target) {
  if (value.kind != Value::Kind::scalar || value.quoted || value.scalar.empty()) return false;
  if (value.is_plain(".inf") || value.is_plain("-.inf")) {
    target =
        std::copysign(std::numeric_limits<double>::infinity(), value.scalar[0] == '-' ? -1.0 : 1.0);
    return true;
  }
  const char last =
      value.scalar.back();  // from_chars takes "inf" and "nan", which YAML reads as strings
  return ((last >= '0' && last <= '9') || last == '.') && parse_whole(value.scalar, target);
}

bool read_value(const Value& value, std::string& target) {
  if (value.kind != Value::Kind::scalar) return false;
  target = value.scalar;
  return true;
}

bool read_value(const Value& value, Value& target) {
  if (!value.is_map() && !value.is_null()) return false;
  target = value;
  return true;
}

Value write_value(bool value) {
  return Value::of_scalar(value ? "true" : "false");
}
Value write_value(int value) {
  return Value::of_scalar(fmt::format("{}", value));
}
Value write_value(int64_t value) {
  return Value::of_scalar(fmt::format("{}", value));
}
Value write_value(double value) {
  if (std::isinf(value)) return Value::of_scalar(value > 0 ? ".inf" : "-.inf");
  return Value::of_scalar(fmt::format("{}", value));
}

Value write_value(const std::string& value) {
  // A string that would read back as null, `auto` or None in its field keeps its quotes; names stay
  // plain.
  const Value plain = Value::of_scalar(value);
  const bool word = value == "auto" || value == "None" || value.empty();
  return word ? Value::of_scalar(value, true) : plain;
}

Value write_value(const Value& value) {
  return value;
}

}  // namespace viaduct
