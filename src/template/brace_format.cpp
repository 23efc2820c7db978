// "{}".format(x).

#include <charconv>
#include <cstdint>
#include <optional>

#include "template/format.h"
#include "template/printing.h"

namespace viaduct::jinja {
namespace {

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, TemplateArguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  std::string text(std::string_view format, int depth) {
    if (depth > 2) template_fault("formats nested too deeply");
    std::string result;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at++];
      if (c != '{' && c != '}') {
        result += c;
        continue;
      }
      if (at < format.size() && format[at] == c) {
        result += c;
        ++at;
        continue;
      }
      if (c == '}') template_fault("a single '}}' in a format");
      size_t end = at;
      for (int open = 1; end < format.size(); ++end) {
        if (format[end] == '{') ++open;
        if (format[end] == '}' && --open == 0) break;
      }
      if (end >= format.size()) template_fault("a format with '{{' without '}}'");
      result += field(format.substr(at, end - at), depth);
      runtime_.budget.check_text(result.size());
      at = end + 1;
    }
    return result;
  }

 private:
  std::string field(std::string_view field, int depth) {
    size_t name_end = 0;
    for (bool index = false; name_end < field.size(); ++name_end) {
      const char c = field[name_end];
      if (c == '[') index = true;
      if (c == ']') index = false;
      if (!index && (c == '!' || c == ':')) break;
    }
    TemplateValue value = looked_up(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    if (rest.starts_with('!')) {
      const char conversion = rest.size() > 1 ? rest[1] : ' ';
      if (conversion == 'r' || conversion == 'a') {
        value = TemplateValue(to_repr(runtime_, value));
      } else if (conversion == 's') {
        value = TemplateValue(to_text(runtime_, value));
      } else {
        template_fault("unknown conversion '!{}' in a format", conversion);
      }
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':') template_fault("expected ':' after a conversion");
    if (!rest.empty()) rest.remove_prefix(1);
    if (rest.empty()) return to_text(runtime_, value);
    return format_value(runtime_, value, parse_format_spec(text(rest, depth + 1)));
  }

  static std::optional<int64_t> integer(std::string_view text) {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || text[0] == '-')
      return std::nullopt;
    return value;
  }

  TemplateValue looked_up(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    TemplateValue value = argument(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      if (name[0] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", 1), name.size());
        value = get_attribute(runtime_, value, std::string(name.substr(1, stop - 1)));
        name.remove_prefix(stop);
      } else {
        const size_t stop = name.find(']');
        if (name[0] != '[' || stop == std::string_view::npos)
          template_fault("a broken field in a format");
        const std::string_view index = name.substr(1, stop - 1);
        const auto number = integer(index);
        value = get_item(runtime_, value, number ? TemplateValue(*number) : TemplateValue(index));
        name.remove_prefix(stop + 1);
      }
    }
    return value;
  }

  TemplateValue argument(std::string_view name) {
    size_t place = 0;
    if (name.empty()) {
      if (numbered_ == 'm') template_fault("'{{}}' beside '{{0}}' in a format");
      numbered_ = 'a';
      place = next_++;
    } else if (const auto number = integer(name)) {
      if (numbered_ == 'a') template_fault("'{{0}}' beside '{{}}' in a format");
      numbered_ = 'm';
      place = static_cast<size_t>(*number);
    } else {
      for (const auto& [given, value] : arguments_.named) {
        if (given == name) return value;
      }
      template_fault("no value \"{}\" for a format", name);
    }
    if (place >= arguments_.positional.size())
      template_fault("a format has more fields than values");
    return arguments_.positional[place];
  }

  Runtime& runtime_;
  TemplateArguments& arguments_;
  char numbered_ = 0;
  size_t next_ = 0;
};

}  // namespace

std::string brace_format(Runtime& runtime, const std::string& format,
                         TemplateArguments& arguments) {
  std::string text = BraceFormat(runtime, arguments).text(format, 0);
  runtime.budget.make_text(text.size());
  return text;
}

}  // namespace viaduct::jinja
