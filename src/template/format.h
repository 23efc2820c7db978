#pragma once
// Python's two ways to format: "%s" % x, and "{}".format(x).

#include <string>
#include <string_view>

#include "template/runtime.h"

namespace viaduct::jinja {

/// How a value is laid out in its field (Python's format specification).
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '=' or none
  char sign = '-';
  bool alternate = false, zero = false;
  char grouping = 0;  // ',' or '_'
  int64_t width = 0, precision = -1;
  char type = 0;
};

FormatSpec parse_format_spec(std::string_view spec);
std::string format_value(Runtime& runtime, const TemplateValue& value, const FormatSpec& spec);
/// `text` in a field of `width` characters.
std::string padded(Runtime& runtime, const std::string& text, int64_t width, char align,
                   const std::string& fill);

std::string percent_format(Runtime& runtime, const std::string& format, const TemplateValue& value);
std::string brace_format(Runtime& runtime, const std::string& format, TemplateArguments& arguments);

}  // namespace viaduct::jinja
