// The methods of Python's str.

#include <algorithm>
#include <unordered_map>

#include "template/arguments.h"
#include "template/format.h"
#include "template/methods.h"
#include "template/operators.h"
#include "template/text_search.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

using Arguments = TemplateArguments;

template <bool left, bool right>
TemplateValue strip_method(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("strip", arguments, {"chars"});
  if (!given.has(0) || given[0].is_none()) return TemplateValue(strip(self.as_text(), left, right));
  runtime.budget.search(self.as_text().size(), given.text(0).size());
  return TemplateValue(strip(self.as_text(), given.text(0), left, right));
}

TemplateValue texts(Runtime& runtime, std::vector<std::string> parts,
                    ListForm form = ListForm::list) {
  runtime.budget.make(parts.size() * 64);
  std::vector<TemplateValue> items;
  items.reserve(parts.size());
  for (std::string& part : parts) items.emplace_back(std::move(part));
  return TemplateValue::list(std::move(items), form);
}

template <bool from_right>
TemplateValue split(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("split", arguments, {"sep", "maxsplit"});
  const int64_t most = given.integer(1, -1);
  runtime.budget.make(self.as_text().size());
  if (!given.has(0) || given[0].is_none()) {
    return texts(runtime, split_at_space(self.as_text(), most, from_right));
  }
  if (given.text(0).empty()) template_fault("split: the separator is empty");
  runtime.budget.search(self.as_text().size(), given.text(0).size());
  return texts(runtime, split_at(self.as_text(), given.text(0), most, from_right));
}

template <bool from_right>
TemplateValue partition(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("partition", arguments, {"sep"}, 1);
  const std::string& text = self.as_text();
  const std::string& separator = given.text(0);
  if (separator.empty()) template_fault("partition: the separator is empty");
  runtime.budget.search(text.size(), separator.size());
  const size_t at = from_right ? text.rfind(separator) : text.find(separator);
  if (at == std::string::npos) {
    if (from_right) return texts(runtime, {"", "", text}, ListForm::tuple);
    return texts(runtime, {text, "", ""}, ListForm::tuple);
  }
  return texts(runtime, {text.substr(0, at), separator, text.substr(at + separator.size())},
               ListForm::tuple);
}

/// The part of the text between the optional bounds at `first`; false if they are crossed.
bool bounded(const Parameters& given, size_t first, const std::string& text, size_t& begin,
             std::string_view& part) {
  begin = 0;
  part = text;
  const bool no_begin = !given.has(first) || given[first].is_none();
  const bool no_end = !given.has(first + 1) || given[first + 1].is_none();
  if (no_begin && no_end) return true;
  const auto size = static_cast<int64_t>(code_points(text));
  const auto place = [&](size_t i, bool none, int64_t standard) {
    int64_t at = none ? standard : given.integer(i, standard);
    return at < 0 ? std::max<int64_t>(at + size, 0) : at;
  };
  const int64_t from = place(first, no_begin, 0);
  const int64_t to = std::min(place(first + 1, no_end, size), size);
  if (from > to) return false;
  size_t at = 0;
  for (int64_t i = 0; i < from; ++i) next_code_point(text, at);
  begin = at;
  for (int64_t i = from; i < to; ++i) next_code_point(text, at);
  part = std::string_view(text).substr(begin, at - begin);
  return true;
}

template <bool at_end>
TemplateValue starts_or_ends(Runtime&, const TemplateValue& self, Arguments& arguments) {
  const char* name = at_end ? "endswith" : "startswith";
  const Parameters given(name, arguments, {"text", "start", "end"}, 1);
  size_t begin = 0;
  std::string_view part;
  if (!bounded(given, 1, self.as_text(), begin, part)) return false;
  const auto matches = [&](const TemplateValue& other) {
    if (!other.is_text()) {
      check_defined(other);
      template_fault("{} expects a text or a tuple of texts, found '{}'", name, type_name(other));
    }
    return at_end ? part.ends_with(other.as_text()) : part.starts_with(other.as_text());
  };
  if (given[0].is_list() && given[0].as_list().form == ListForm::tuple) {
    const auto& items = given[0].as_list().items;
    return std::any_of(items.begin(), items.end(), matches);
  }
  return matches(given[0]);
}

template <bool from_right, bool must>
TemplateValue find(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("find", arguments, {"text", "start", "end"}, 1);
  const std::string& other = given.text(0);
  runtime.budget.search(self.as_text().size(), other.size());
  size_t begin = 0;
  std::string_view part;
  size_t at = std::string_view::npos;
  if (bounded(given, 1, self.as_text(), begin, part)) {
    at = from_right ? part.rfind(other) : part.find(other);
  }
  if (at == std::string_view::npos) {
    if (must) template_fault("the text was not found");
    return -1;
  }
  return static_cast<int64_t>(code_points(std::string_view(self.as_text()).substr(0, begin + at)));
}

TemplateValue count(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("count", arguments, {"text", "start", "end"}, 1);
  const std::string& other = given.text(0);
  runtime.budget.search(self.as_text().size(), other.size());
  size_t begin = 0;
  std::string_view part;
  if (!bounded(given, 1, self.as_text(), begin, part)) return 0;
  if (other.empty()) return static_cast<int64_t>(code_points(part)) + 1;
  int64_t found = 0;
  for (size_t at = part.find(other); at != std::string_view::npos;
       at = part.find(other, at + other.size())) {
    ++found;
  }
  return found;
}

TemplateValue replace(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("replace", arguments, {"old", "new", "count"}, 2);
  return TemplateValue(
      replaced(runtime, self.as_text(), given.text(0), given.text(1), given.integer(2, -1)));
}

TemplateValue join(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("join", arguments, {"items"}, 1);
  std::string text;
  bool first = true;
  for (const TemplateValue& item : iterate(runtime, given[0])) {
    if (!item.is_text()) {
      template_fault("join: expected texts, found '{}'", type_name(item));
    }
    if (!first) text += self.as_text();
    first = false;
    text += item.as_text();
    runtime.budget.check_text(text.size());
  }
  runtime.budget.make_text(text.size());
  return TemplateValue(std::move(text));
}

template <char align>
TemplateValue justify(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("justify", arguments, {"width", "fillchar"}, 1);
  const std::string fill = given.has(1) ? given.text(1) : " ";
  if (code_points(fill) != 1) template_fault("the fill character must be one character");
  if (align != '^')
    return TemplateValue(padded(runtime, self.as_text(), given.integer(0, 0), align, fill));
  // Python's center puts an odd character to the left where the width is odd.
  const int64_t width = given.integer(0, 0),
                size = static_cast<int64_t>(code_points(self.as_text()));
  if (width <= size) return self;
  const int64_t left = (width - size) / 2 + ((width - size) & width & 1);
  return TemplateValue(
      padded(runtime, padded(runtime, self.as_text(), size + left, '>', fill), width, '<', fill));
}

TemplateValue zfill(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("zfill", arguments, {"width"}, 1);
  const std::string& text = self.as_text();
  const bool sign = text.starts_with('-') || text.starts_with('+');
  const std::string digits = text.substr(sign ? 1 : 0);
  return TemplateValue((sign ? text.substr(0, 1) : "") +
                       padded(runtime, digits, given.integer(0, 0) - (sign ? 1 : 0), '>', "0"));
}

TemplateValue split_lines_method(Runtime& runtime, const TemplateValue& self,
                                 Arguments& arguments) {
  const Parameters given("splitlines", arguments, {"keepends"});
  runtime.budget.make(self.as_text().size());
  return texts(runtime, split_lines(self.as_text(), given.is_true(0)));
}

template <bool suffix>
TemplateValue remove_affix(Runtime&, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("removeprefix", arguments, {"text"}, 1);
  const std::string& text = self.as_text();
  const std::string& affix = given.text(0);
  if (suffix && text.ends_with(affix))
    return TemplateValue(text.substr(0, text.size() - affix.size()));
  if (!suffix && text.starts_with(affix)) return TemplateValue(text.substr(affix.size()));
  return self;
}

template <std::string (*change)(std::string_view)>
TemplateValue changed(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("this method", arguments, {});
  runtime.budget.make_text(self.as_text().size());
  return TemplateValue(change(self.as_text()));
}

template <bool (*holds)(std::string_view)>
TemplateValue is_method(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("this method", arguments, {});
  runtime.budget.step(static_cast<int64_t>(self.as_text().size()) / 64);
  return holds(self.as_text());
}

TemplateValue format(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  return TemplateValue(brace_format(runtime, self.as_text(), arguments));
}

TemplateValue expand_tabs(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("expandtabs", arguments, {"tabsize"});
  const int64_t size = given.integer(0, 8);
  std::string text;
  int64_t column = 0;
  for (const char c : self.as_text()) {
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      runtime.budget.make_text(static_cast<size_t>(spaces));
      text.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      text += c;
      column = c == '\n' || c == '\r' ? 0 : column + (is_continuation(c) ? 0 : 1);
    }
    runtime.budget.check_text(text.size());
  }
  runtime.budget.make_text(text.size());
  return TemplateValue(std::move(text));
}

}  // namespace

Method find_text_method(const std::string& name) {
  static const std::unordered_map<std::string_view, Method> kMethods = {
      {"strip", strip_method<true, true>},
      {"lstrip", strip_method<true, false>},
      {"rstrip", strip_method<false, true>},
      {"split", split<false>},
      {"rsplit", split<true>},
      {"partition", partition<false>},
      {"rpartition", partition<true>},
      {"startswith", starts_or_ends<false>},
      {"endswith", starts_or_ends<true>},
      {"find", find<false, false>},
      {"rfind", find<true, false>},
      {"index", find<false, true>},
      {"rindex", find<true, true>},
      {"count", count},
      {"replace", replace},
      {"join", join},
      {"ljust", justify<'<'>},
      {"rjust", justify<'>'>},
      {"center", justify<'^'>},
      {"zfill", zfill},
      {"splitlines", split_lines_method},
      {"removeprefix", remove_affix<false>},
      {"removesuffix", remove_affix<true>},
      {"lower", changed<to_lower>},
      {"casefold", changed<to_lower>},
      {"upper", changed<to_upper>},
      {"capitalize", changed<to_capitalized>},
      {"title", changed<to_title>},
      {"swapcase", changed<to_swapped_case>},
      {"isspace", is_method<all_space>},
      {"isalpha", is_method<all_alphabetic>},
      {"isdigit", is_method<all_digits>},
      {"isdecimal", is_method<all_digits>},
      {"isnumeric", is_method<all_digits>},
      {"isalnum", is_method<all_alphanumeric>},
      {"isascii", is_method<is_ascii>},
      {"isprintable", is_method<all_printable>},
      {"isidentifier", is_method<is_identifier>},
      {"islower", is_method<is_lower>},
      {"isupper", is_method<is_upper>},
      {"istitle", is_method<is_title>},
      {"format", format},
      {"expandtabs", expand_tabs},
  };
  const auto found = kMethods.find(name);
  return found == kMethods.end() ? nullptr : found->second;
}

}  // namespace viaduct::jinja
