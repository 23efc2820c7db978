#include "template/printing.h"

#include <charconv>
#include <cmath>

#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

void append_text_repr(std::string& text, std::string_view value) {
  const bool has_single = value.find('\'') != std::string_view::npos;
  const char quote = has_single && value.find('"') == std::string_view::npos ? '"' : '\'';
  text += quote;
  for (size_t at = 0; at < value.size();) {
    const char32_t c = next_code_point(value, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      text += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      append_code_point(text, c);
    } else if (c < 0x100) {
      text += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      text += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      text += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  text += quote;
}

void append_repr(Runtime& runtime, std::string& text, const TemplateValue& value);

void append_items(Runtime& runtime, std::string& text, const TemplateList& list) {
  bool first = true;
  for (const TemplateValue& item : list.items) {
    if (!first) text += ", ";
    first = false;
    append_repr(runtime, text, item);
  }
}

void append_list(Runtime& runtime, std::string& text, const TemplateList& list) {
  if (list.form == ListForm::range) {
    if (list.shown.empty()) template_fault("a slice of a range has no text");
    text += list.shown;
    return;
  }
  static constexpr const char* kOpen[] = {"[", "(", "dict_keys([", "dict_values([", "dict_items(["};
  static constexpr const char* kClose[] = {"]", ")", "])", "])", "])"};
  const auto form = static_cast<int>(list.form);
  text += kOpen[form];
  append_items(runtime, text, list);
  if (list.form == ListForm::tuple && list.items.size() == 1) text += ',';
  text += kClose[form];
}

void append_map(Runtime& runtime, std::string& text, const TemplateMap& map) {
  text += '{';
  bool first = true;
  for (const auto& [key, value] : map.entries()) {
    if (!first) text += ", ";
    first = false;
    append_repr(runtime, text, key);
    text += ": ";
    append_repr(runtime, text, value);
  }
  text += '}';
}

void append_object(Runtime& runtime, std::string& text, const TemplateObject& object) {
  if (const auto* space = dynamic_cast<const TemplateNamespace*>(&object)) {
    text += "<Namespace ";
    append_map(runtime, text, space->members);
    text += '>';
  } else if (const auto* loop = dynamic_cast<const TemplateLoop*>(&object)) {
    text += fmt::format("<LoopContext {}/{}>", loop->index + 1, loop->items.size());
  } else if (const auto* function = dynamic_cast<const TemplateCallable*>(&object);
             function != nullptr && function->is_macro) {
    text += "<Macro ";
    append_text_repr(text, function->name);
    text += '>';
  } else {
    // Python prints an address in memory here.
    template_fault("a {} has no text of its own", object_name(object));
  }
}

void append_repr(Runtime& runtime, std::string& text, const TemplateValue& value) {
  const TemplateBudget::Level level(runtime.budget);
  runtime.budget.step();
  runtime.budget.check_text(text.size());
  if (value.is_text()) {
    if (value.is_markup()) text += "Markup(";
    append_text_repr(text, value.as_text());
    if (value.is_markup()) text += ')';
  } else if (value.is_undefined()) {
    text += "Undefined";
  } else if (value.is_list()) {
    append_list(runtime, text, value.as_list());
  } else if (value.is_map()) {
    append_map(runtime, text, value.as_map());
  } else if (value.is_object()) {
    append_object(runtime, text, *value.as_object());
  } else {
    append_text(runtime, text, value);
  }
}

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view all(buffer, static_cast<size_t>(end - buffer));
  const size_t e = all.find('e');
  std::string digits;
  for (const char c : all.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const int exponent = std::atoi(std::string(all.substr(e + 1)).c_str());
  const std::string sign = all[0] == '-' ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    std::string text = sign + digits[0];
    if (digits.size() > 1) text += "." + digits.substr(1);
    return text + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_text(Runtime& runtime, std::string& text, const TemplateValue& value) {
  if (value.is_text()) {
    text += value.as_text();
  } else if (value.is_undefined()) {
    // Prints as nothing.
  } else if (value.is_none()) {
    text += "None";
  } else if (value.is_bool()) {
    text += value.as_bool() ? "True" : "False";
  } else if (value.is_integer()) {
    text += fmt::format("{}", value.as_integer());
  } else if (value.is_float()) {
    text += float_text(value.as_float());
  } else {
    append_repr(runtime, text, value);
  }
}

std::string to_text(Runtime& runtime, const TemplateValue& value) {
  if (value.is_text()) return value.as_text();
  std::string text;
  append_text(runtime, text, value);
  runtime.budget.make_text(text.size());
  return text;
}

std::string to_repr(Runtime& runtime, const TemplateValue& value) {
  std::string text;
  append_repr(runtime, text, value);
  runtime.budget.make_text(text.size());
  return text;
}

std::string escaped_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '"':
        escaped += "&#34;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace viaduct::jinja
