// "%s" % x.

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "template/format.h"
#include "template/printing.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const std::string& format, const TemplateValue& value)
      : runtime_(runtime), format_(format), value_(value) {
    is_tuple_ = value.is_list() && value.as_list().form == ListForm::tuple;
    is_mapping_ = value.is_map() || value.is_undefined() || (value.is_list() && !is_tuple_);
  }

  std::string text() {
    std::string result;
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      result.append(format_, at_, percent - at_);
      at_ = percent;
      if (at_ >= format_.size()) break;
      ++at_;
      result += field();
      runtime_.budget.check_text(result.size());
    }
    const size_t count = is_tuple_ ? value_.as_list().items.size() : 1;
    if (!named_ && !is_mapping_ && used_ < count) {
      template_fault("not all arguments were used by the format \"{}\"", format_);
    }
    runtime_.budget.make_text(result.size());
    return result;
  }

 private:
  char next() {
    if (at_ >= format_.size()) template_fault("an incomplete format \"{}\"", format_);
    return format_[at_++];
  }
  TemplateValue argument() {
    if (is_tuple_) {
      const auto& items = value_.as_list().items;
      if (used_ >= items.size())
        template_fault("not enough arguments for the format \"{}\"", format_);
      return items[used_++];
    }
    if (used_++ > 0) template_fault("not enough arguments for the format \"{}\"", format_);
    return value_;
  }
  TemplateValue named_argument() {
    const size_t end = format_.find(')', at_);
    if (end == std::string::npos) template_fault("an incomplete key in the format \"{}\"", format_);
    const std::string name = format_.substr(at_, end - at_);
    at_ = end + 1;
    named_ = true;
    if (!value_.is_map()) template_fault("the format \"{}\" needs a map", format_);
    const TemplateValue* found = value_.as_map().find(std::string_view(name));
    if (found == nullptr) template_fault("no value \"{}\" for the format \"{}\"", name, format_);
    return *found;
  }
  int64_t number() {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      const TemplateValue given = argument();
      if (!given.is_integer()) template_fault("'*' in a format needs an integer");
      return given.as_integer();
    }
    int64_t value = 0;
    while (at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9') {
      value = value * 10 + (format_[at_++] - '0');
      if (value > INT32_MAX) template_fault("too many digits in a format");
    }
    return value;
  }

  std::string field() {
    std::optional<TemplateValue> named;
    if (at_ < format_.size() && format_[at_] == '(') {
      ++at_;
      named = named_argument();
    }
    FormatSpec spec;
    for (; at_ < format_.size(); ++at_) {
      const char flag = format_[at_];
      if (flag == '-') {
        spec.align = '<';
      } else if (flag == '+' || (flag == ' ' && spec.sign != '+')) {
        spec.sign = flag;
      } else if (flag == '0') {
        spec.zero = true;
      } else if (flag == '#') {
        spec.alternate = true;
      } else if (flag != ' ') {
        break;
      }
    }
    spec.width = number();
    if (spec.width < 0) spec.align = '<', spec.width = -spec.width;
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(number(), 0);
    }
    char type = next();
    while (type == 'l' || type == 'h' || type == 'L') type = next();
    if (type == '%') return "%";
    return converted(named ? *named : argument(), type, spec);
  }

  std::string converted(const TemplateValue& value, char type, FormatSpec spec) {
    if (type == 's' || type == 'r' || type == 'a') {
      spec.sign = '-';
      spec.alternate = spec.zero = false;
      spec.fill = " ";
      if (spec.align == 0) spec.align = '>';
      return format_value(
          runtime_,
          TemplateValue(type == 's' ? to_text(runtime_, value) : to_repr(runtime_, value)), spec);
    }
    if (type == 'c') {
      if (value.is_text() && code_points(value.as_text()) == 1) {
        return padded(runtime_, value.as_text(), spec.width, spec.align == 0 ? '>' : spec.align,
                      " ");
      }
      if (!value.is_integer()) template_fault("%c needs an integer or one character");
      spec.type = 'c';
      if (spec.align == 0) spec.align = '>';
      return format_value(runtime_, value, spec);
    }
    const bool integral = std::string_view("diuxXo").find(type) != std::string_view::npos;
    if (!integral && std::string_view("eEfFgG").find(type) == std::string_view::npos) {
      template_fault("unsupported format character '{}' in \"{}\"", type, format_);
    }
    check_defined(value);
    if (!value.is_number()) {
      template_fault("%{} needs a number, found '{}'", type, type_name(value));
    }
    if (spec.align == '<') spec.zero = false;
    if (!integral) {
      spec.type = type;
      return format_value(runtime_, value.as_float(), spec);
    }
    if (value.is_float() && (type == 'x' || type == 'X' || type == 'o')) {
      template_fault("%{} needs an integer, found 'float'", type);
    }
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    if (value.is_float() && !(std::abs(value.as_float()) < 0x1p63)) {
      template_fault("an integer of more than 64 bits");
    }
    const int64_t number =
        value.is_float() ? static_cast<int64_t>(value.as_float()) : value.as_integer();
    const int64_t digits = std::exchange(spec.precision, -1);
    if (digits < 0) return format_value(runtime_, number, spec);
    FormatSpec inner = spec;  // at least so many digits
    inner.width = digits + (number < 0 || spec.sign != '-' ? 1 : 0);
    inner.align = '=';
    inner.fill = "0";
    return padded(runtime_, format_value(runtime_, number, inner), spec.width,
                  spec.align == 0 ? '>' : spec.align, " ");
  }

  Runtime& runtime_;
  const std::string& format_;
  const TemplateValue& value_;
  bool is_tuple_ = false, is_mapping_ = false, named_ = false;
  size_t at_ = 0, used_ = 0;
};

}  // namespace

std::string percent_format(Runtime& runtime, const std::string& format,
                           const TemplateValue& value) {
  return PercentFormat(runtime, format, value).text();
}

}  // namespace viaduct::jinja
