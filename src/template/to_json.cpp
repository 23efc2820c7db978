// json.dumps of Python, with the options that the filter tojson has.

#include <algorithm>
#include <cmath>

#include "template/operators.h"
#include "template/printing.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  std::string text;

  void write(const TemplateValue& value) {
    const TemplateBudget::Level level(runtime_.budget);
    runtime_.budget.step();
    runtime_.budget.check_text(text.size());
    if (value.is_text()) {
      write_text(value.as_text());
    } else if (value.is_list() && value.as_list().form <= ListForm::tuple) {
      write_list(value.as_list());
    } else if (value.is_map()) {
      write_map(value.as_map());
    } else if (value.is_none() || value.is_number()) {
      text += scalar(value);
    } else {
      template_fault("a value of type {} has no JSON", type_name(value));
    }
  }

 private:
  static std::string scalar(const TemplateValue& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.as_bool() ? "true" : "false";
    if (value.is_integer()) return fmt::format("{}", value.as_integer());
    const double number = value.as_float();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return float_text(number);
  }

  void write_text(std::string_view value) {
    text += '"';
    for (size_t at = 0; at < value.size();) {
      const size_t begin = at;
      const char32_t c = next_code_point(value, at);
      static constexpr std::string_view kFrom = "\"\\\n\r\t\b\f", kTo = "\"\\nrtbf";
      const size_t known = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
      if (known != std::string_view::npos) {
        text += '\\';
        text += kTo[known];
      } else if (c < 0x20 || (style_.ascii && c >= 0x7f && c < 0x10000 && c != 0x7f)) {
        text += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
      } else if (style_.ascii && c >= 0x10000) {
        const auto rest = static_cast<uint32_t>(c) - 0x10000;
        text += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
      } else {
        text += value.substr(begin, at - begin);
      }
    }
    text += '"';
  }

  void line(int level) {
    if (!style_.indented) return;
    text += '\n';
    for (int i = 0; i < level; ++i) text += style_.indent;
  }

  void write_list(const TemplateList& list) {
    if (list.items.empty()) {
      text += "[]";
      return;
    }
    text += '[';
    ++level_;
    bool first = true;
    for (const TemplateValue& item : list.items) {
      if (!first) text += style_.item_separator;
      first = false;
      line(level_);
      write(item);
    }
    line(--level_);
    text += ']';
  }

  void write_map(const TemplateMap& map) {
    if (map.size() == 0) {
      text += "{}";
      return;
    }
    std::vector<const TemplateMap::Entry*> entries;
    for (const auto& entry : map.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return less(runtime_, a->first, b->first);
      });
    }
    text += '{';
    ++level_;
    bool first = true;
    for (const TemplateMap::Entry* entry : entries) {
      if (!first) text += style_.item_separator;
      first = false;
      line(level_);
      if (entry->first.is_text()) {
        write_text(entry->first.as_text());
      } else if (entry->first.is_none() || entry->first.is_number()) {
        write_text(scalar(entry->first));
      } else {
        template_fault("keys of JSON are texts, numbers, true, false or none, not {}",
                       type_name(entry->first));
      }
      text += style_.key_separator;
      write(entry->second);
    }
    line(--level_);
    text += '}';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

std::string to_json(Runtime& runtime, const TemplateValue& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value);
  runtime.budget.make_text(writer.text.size());
  return std::move(writer.text);
}

}  // namespace viaduct::jinja
