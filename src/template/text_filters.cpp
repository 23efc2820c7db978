// Filters that make texts.

#include <algorithm>

#include "template/arguments.h"
#include "template/filters.h"
#include "template/format.h"
#include "template/operators.h"
#include "template/printing.h"
#include "template/text_search.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

using Arguments = TemplateArguments;

TemplateValue trim(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("trim", arguments, {"chars"});
  const std::string text = to_text(runtime, value);
  if (!given.has(0) || given[0].is_none()) return TemplateValue(strip(text, true, true));
  runtime.budget.search(text.size(), given.text(0).size());
  return TemplateValue(strip(text, given.text(0), true, true));
}
TemplateValue upper(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("upper", arguments, {});
  return TemplateValue(to_upper(to_text(runtime, value)));
}
TemplateValue lower(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("lower", arguments, {});
  return TemplateValue(to_lower(to_text(runtime, value)));
}
TemplateValue capitalize(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("capitalize", arguments, {});
  return TemplateValue(to_capitalized(to_text(runtime, value)));
}
TemplateValue title(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("title", arguments, {});
  const std::string text = to_text(runtime, value);
  std::string result;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    const std::string character = text.substr(begin, at - begin);
    const bool separates = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    result += separates ? character : inside ? to_lower(character) : to_upper(character);
    inside = !separates;
  }
  return TemplateValue(std::move(result));
}
TemplateValue string(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("string", arguments, {});
  return value.is_text() ? value : TemplateValue(to_text(runtime, value));
}
TemplateValue safe(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("safe", arguments, {});
  return {to_text(runtime, value), true};
}
TemplateValue escape(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("escape", arguments, {});
  if (value.is_markup()) return value;
  std::string text = escaped_html(to_text(runtime, value));
  runtime.budget.make_text(text.size());
  return {std::move(text), true};
}
TemplateValue force_escape(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("forceescape", arguments, {});
  std::string text = escaped_html(to_text(runtime, value));
  runtime.budget.make_text(text.size());
  return {std::move(text), true};
}
TemplateValue replace(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("replace", arguments, {"old", "new", "count"}, 2);
  const int64_t most = given.has(2) && given[2].is_none() ? -1 : given.integer(2, -1);
  return TemplateValue(replaced(runtime, to_text(runtime, value), to_text(runtime, given[0]),
                                to_text(runtime, given[1]), most));
}
TemplateValue format(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    template_fault("format takes arguments by place or by name, not both");
  }
  if (!arguments.named.empty()) {
    TemplateMap map;
    for (const auto& [name, argument] : arguments.named) map.set(TemplateValue(name), argument);
    return TemplateValue(
        percent_format(runtime, to_text(runtime, value), TemplateValue::map(std::move(map))));
  }
  return TemplateValue(percent_format(runtime, to_text(runtime, value),
                                      TemplateValue::list(arguments.positional, ListForm::tuple)));
}

TemplateValue indent(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("indent", arguments, {"width", "first", "blank"});
  check_defined(value);
  if (!value.is_text()) template_fault("indent needs a text, found '{}'", type_name(value));
  std::string space;
  if (given.has(0) && given[0].is_text()) {
    space = given[0].as_text();
  } else {
    const auto width = static_cast<size_t>(std::max<int64_t>(given.integer(0, 4), 0));
    runtime.budget.make_text(width);
    space.assign(width, ' ');
  }
  const std::vector<std::string> lines = split_lines(value.as_text() + "\n");
  std::string text = given.is_true(1) ? space : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      text += '\n';
      if (given.is_true(2) || !lines[i].empty()) text += space;
    }
    text += lines[i];
    runtime.budget.check_text(text.size());
  }
  runtime.budget.make_text(text.size());
  return TemplateValue(std::move(text));
}

TemplateValue center(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("center", arguments, {"width"});
  const std::string text = to_text(runtime, value);
  const int64_t width = given.integer(0, 80), size = static_cast<int64_t>(code_points(text));
  if (width <= size) return TemplateValue(text);
  const int64_t left = (width - size) / 2 + ((width - size) & width & 1);
  return TemplateValue(
      padded(runtime, padded(runtime, text, size + left, '>', " "), width, '<', " "));
}

TemplateValue truncate(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string text = to_text(runtime, value);
  const std::u32string characters = to_code_points(text);
  const std::string end = given.has(2) ? given.text(2) : "...";
  const int64_t length = given.integer(0, 255), leeway = given.integer(3, 5);
  const auto end_size = static_cast<int64_t>(code_points(end));
  if (length < end_size) template_fault("truncate: the length is below that of the end");
  if (leeway < 0) template_fault("truncate: the leeway is negative");
  if (static_cast<int64_t>(characters.size()) <= length + leeway) return TemplateValue(text);
  std::u32string cut = characters.substr(0, static_cast<size_t>(length - end_size));
  if (!given.is_true(1)) {
    const size_t space = cut.rfind(U' ');
    if (space != std::u32string::npos) cut.resize(space);
  }
  return TemplateValue(from_code_points(cut) + end);
}

TemplateValue word_count(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("wordcount", arguments, {});
  const std::string text = to_text(runtime, value);
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const bool word = is_alphabetic(c) || is_decimal_digit(c) || c == '_';
    count += word && !inside;
    inside = word;
  }
  return count;
}

TemplateValue tojson(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("tojson", arguments,
                         {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = given.is_true(0);
  style.sort_keys = given.is_true(3);
  if (given.has(1) && !given[1].is_none()) {
    style.indented = true;
    style.item_separator = ",";
    if (given[1].is_text()) {
      style.indent = given[1].as_text();
    } else {
      const auto width = static_cast<size_t>(std::max<int64_t>(given.integer(1, 0), 0));
      runtime.budget.make_text(width);
      style.indent.assign(width, ' ');
    }
  }
  if (given.has(2) && !given[2].is_none()) {
    const std::vector<TemplateValue> both = iterate(runtime, given[2]);
    if (both.size() != 2 || !both[0].is_text() || !both[1].is_text()) {
      template_fault("tojson: separators are two texts");
    }
    style.item_separator = both[0].as_text();
    style.key_separator = both[1].as_text();
  }
  return TemplateValue(to_json(runtime, value, style));
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable kFilters = {{"trim", trim},
                                       {"upper", upper},
                                       {"lower", lower},
                                       {"title", title},
                                       {"capitalize", capitalize},
                                       {"string", string},
                                       {"safe", safe},
                                       {"escape", escape},
                                       {"e", escape},
                                       {"forceescape", force_escape},
                                       {"replace", replace},
                                       {"format", format},
                                       {"indent", indent},
                                       {"center", center},
                                       {"truncate", truncate},
                                       {"wordcount", word_count},
                                       {"tojson", tojson}};
  return kFilters;
}

}  // namespace viaduct::jinja
