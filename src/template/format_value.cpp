// One value in its field.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "template/format.h"
#include "template/printing.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

constexpr int64_t kLargestPrecision = 1000;

std::string in_base(uint64_t value, unsigned base) {
  std::string digits;
  do {
    digits += "0123456789abcdef"[value % base];
    value /= base;
  } while (value > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string upper_ascii(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return text;
}

std::string print_float(double value, const FormatSpec& spec, char type) {
  if (std::isnan(value)) return std::isupper(type) != 0 ? "NAN" : "nan";
  if (std::isinf(value)) return std::isupper(type) != 0 ? "INF" : "inf";
  const auto precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  const char format[] = {'%',
                         spec.alternate ? '#' : '.',
                         spec.alternate ? '.' : '*',
                         spec.alternate ? '*' : type,
                         spec.alternate ? type : '\0',
                         '\0'};
  const int size = std::snprintf(nullptr, 0, format, precision, value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, precision, value);
  text.pop_back();
  return text;
}

/// The digits of a number without its sign, and what stands before them ("0x").
struct Digits {
  std::string prefix, text;
};

Digits integer_digits(int64_t value, const FormatSpec& spec) {
  const uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  switch (spec.type) {
    case 'x':
      return {spec.alternate ? "0x" : "", in_base(size, 16)};
    case 'X':
      return {spec.alternate ? "0X" : "", upper_ascii(in_base(size, 16))};
    case 'o':
      return {spec.alternate ? "0o" : "", in_base(size, 8)};
    case 'b':
      return {spec.alternate ? "0b" : "", in_base(size, 2)};
    default:
      return {"", in_base(size, 10)};
  }
}

std::string float_digits(double value, const FormatSpec& spec) {
  const double size = std::abs(value);
  if (spec.type == '%') return print_float(size * 100, spec, 'f') + "%";
  if (spec.type == 'n') return print_float(size, spec, 'g');
  if (spec.type != 0) return print_float(size, spec, spec.type);
  if (spec.precision < 0) return float_text(size);
  // Without a type: as 'g', but with at least one digit behind the point.
  FormatSpec general = spec;
  general.precision = std::max<int64_t>(spec.precision, 1);
  std::string text = print_float(size, general, 'g');
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

void group_digits(std::string& digits, char separator, size_t group) {
  size_t whole = 0;
  while (whole < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[whole])) != 0 &&
         (group == 4 || digits[whole] <= '9')) {
    ++whole;
  }
  for (size_t at = whole; at > group; at -= group) digits.insert(at - group, 1, separator);
}

std::string format_number(Runtime& runtime, const TemplateValue& value, const FormatSpec& spec) {
  const bool as_float =
      value.is_float() ||
      (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos);
  const std::string_view allowed = as_float ? "eEfFgGn%" : "bcdoxXn";
  if (spec.type != 0 && allowed.find(spec.type) == std::string_view::npos) {
    template_fault("unknown format code '{}' for a value of type '{}'", spec.type,
                   type_name(value));
  }
  if (spec.precision > kLargestPrecision) template_fault("a precision above {}", kLargestPrecision);
  if (!as_float && spec.precision >= 0) template_fault("a precision for an integer");
  if (spec.type == 'c') {
    std::string text;
    if (value.as_integer() < 0 || value.as_integer() > 0x10ffff)
      template_fault("%c is out of range");
    append_code_point(text, static_cast<char32_t>(value.as_integer()));
    return padded(runtime, text, spec.width, spec.align == 0 ? '<' : spec.align, spec.fill);
  }
  const bool negative = as_float ? std::signbit(value.as_float()) && !std::isnan(value.as_float())
                                 : value.as_integer() < 0;
  Digits digits = as_float ? Digits{"", float_digits(value.as_float(), spec)}
                           : integer_digits(value.as_integer(), spec);
  const bool based = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b';
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const char align = spec.align != 0 ? spec.align : spec.zero ? '=' : '>';
  const std::string fill = spec.zero && spec.fill == " " ? "0" : spec.fill;
  const std::string before = sign + digits.prefix;
  if (spec.grouping != 0) {
    const size_t group = based ? 4 : 3;
    if (align == '=' && fill == "0") {
      runtime.budget.make_text(static_cast<size_t>(spec.width));
      const std::string plain = digits.text;
      // Zeros take part in the groups: as many as make the field at least its width.
      for (size_t zeros = 0;; ++zeros) {
        digits.text = std::string(zeros, '0') + plain;
        group_digits(digits.text, spec.grouping, group);
        if (static_cast<int64_t>(digits.text.size() + before.size()) >= spec.width) break;
        if (zeros > 2000) template_fault("a field that is too wide");
      }
      return before + digits.text;
    }
    group_digits(digits.text, spec.grouping, group);
  }
  if (align != '=') return padded(runtime, before + digits.text, spec.width, align, fill);
  const auto taken = static_cast<int64_t>(before.size());
  return before + padded(runtime, digits.text, spec.width - taken, '>', fill);
}

}  // namespace

std::string padded(Runtime& runtime, const std::string& text, int64_t width, char align,
                   const std::string& fill) {
  const auto size = static_cast<int64_t>(code_points(text));
  if (width <= size) return text;
  const int64_t missing = width - size;
  runtime.budget.check_text(static_cast<size_t>(missing));
  runtime.budget.make_text(static_cast<size_t>(missing) * fill.size());
  const int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  std::string result;
  for (int64_t i = 0; i < left; ++i) result += fill;
  result += text;
  for (int64_t i = left; i < missing; ++i) result += fill;
  return result;
}

FormatSpec parse_format_spec(std::string_view spec) {
  FormatSpec parsed;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t at = 0;
  if (!spec.empty()) {
    size_t behind = 0;
    next_code_point(spec, behind);
    if (behind < spec.size() && is_align(spec[behind])) {
      parsed.fill = std::string(spec.substr(0, behind));
      parsed.align = spec[behind];
      at = behind + 1;
    } else if (is_align(spec[0])) {
      parsed.align = spec[at++];
    }
  }
  const auto next_is = [&](char c) { return at < spec.size() && spec[at] == c; };
  const auto number = [&] {
    int64_t value = 0;
    while (at < spec.size() && spec[at] >= '0' && spec[at] <= '9') {
      value = value * 10 + (spec[at++] - '0');
      if (value > INT32_MAX) template_fault("too many digits in a format");
    }
    return value;
  };
  if (next_is('+') || next_is('-') || next_is(' ')) parsed.sign = spec[at++];
  if (next_is('#')) parsed.alternate = true, ++at;
  if (next_is('0')) {
    parsed.zero = parsed.align == 0 || parsed.align == '=';
    if (parsed.fill == " ") parsed.fill = "0";
    ++at;
  }
  parsed.width = number();
  if (next_is(',') || next_is('_')) parsed.grouping = spec[at++];
  if (next_is('.')) {
    ++at;
    if (at >= spec.size() || spec[at] < '0' || spec[at] > '9')
      template_fault("a format without its precision");
    parsed.precision = number();
  }
  if (at < spec.size()) parsed.type = spec[at++];
  if (at < spec.size()) template_fault("invalid format \"{}\"", spec);
  return parsed;
}

std::string format_value(Runtime& runtime, const TemplateValue& value, const FormatSpec& spec) {
  if (value.is_number()) return format_number(runtime, value, spec);
  if (!value.is_text()) {
    template_fault("a value of type '{}' cannot be formatted with a width or type",
                   type_name(value));
  }
  if (spec.type != 0 && spec.type != 's') {
    template_fault("unknown format code '{}' for a value of type 'str'", spec.type);
  }
  if (spec.align == '=' || spec.sign != '-' || spec.alternate || spec.grouping != 0) {
    template_fault("a sign, '=', '#' or ',' in the format of a text");
  }
  std::string text = value.as_text();
  if (spec.precision >= 0) {
    size_t at = 0;
    for (int64_t i = 0; i < spec.precision && at < text.size(); ++i) next_code_point(text, at);
    text.resize(at);
  }
  return padded(runtime, text, spec.width, spec.align == 0 ? '<' : spec.align, spec.fill);
}

}  // namespace viaduct::jinja
