#pragma once
// Values as texts: Python's str() and repr(), and JSON.

#include <string>
#include <string_view>

#include "template/runtime.h"

namespace viaduct::jinja {

/// str(value): what `{{ value }}` prints.
std::string to_text(Runtime& runtime, const TemplateValue& value);
void append_text(Runtime& runtime, std::string& text, const TemplateValue& value);
std::string to_repr(Runtime& runtime, const TemplateValue& value);
/// repr of a float: the shortest digits that are read back equal.
std::string float_text(double value);
/// A text with &, <, >, ' and " as HTML.
std::string escaped_html(std::string_view text);

struct JsonStyle {
  std::string indent;  // of one level
  bool indented = false, ascii = false, sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
};
/// json.dumps.
std::string to_json(Runtime& runtime, const TemplateValue& value, const JsonStyle& style);

}  // namespace viaduct::jinja
