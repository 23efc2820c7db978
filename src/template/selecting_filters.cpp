// map, select, reject, selectattr, rejectattr; and the search of all tables.

#include <algorithm>

#include "template/arguments.h"
#include "template/filters.h"
#include "template/operators.h"

namespace viaduct::jinja {
namespace {

using Arguments = TemplateArguments;

TemplateValue map(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  return make_generator(value.depth(), [&runtime, value, arguments]() mutable {
    std::vector<TemplateValue> items;
    if (!is_true(value)) return items;
    Arguments rest = arguments;
    if (rest.positional.empty()) {
      const Parameters given("map", rest, {"attribute", "default"}, 1);
      for (const TemplateValue& item : iterate(runtime, value)) {
        TemplateValue found = attribute_path(runtime, item, given[0]);
        const bool standard = found.is_undefined() && given.has(1) && !given[1].is_none();
        items.push_back(standard ? given[1] : std::move(found));
      }
      return items;
    }
    const TemplateValue name = rest.positional[0];
    if (!name.is_text()) template_fault("map needs the name of a filter, or attribute=…");
    rest.positional.erase(rest.positional.begin());
    for (const TemplateValue& item : iterate(runtime, value)) {
      items.push_back(runtime.filter(name.as_text(), item, rest));
    }
    return items;
  });
}

template <bool keeps, bool by_attribute>
TemplateValue select(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  return make_generator(value.depth(), [&runtime, value, arguments]() mutable {
    std::vector<TemplateValue> items;
    if (!is_true(value)) return items;
    Arguments rest = arguments;
    TemplateValue attribute;
    if (by_attribute) {
      if (rest.positional.empty()) template_fault("selectattr needs the name of an attribute");
      attribute = rest.positional[0];
      rest.positional.erase(rest.positional.begin());
    }
    std::string test;
    if (!rest.positional.empty()) {
      if (!rest.positional[0].is_text()) template_fault("select needs the name of a test");
      test = rest.positional[0].as_text();
      rest.positional.erase(rest.positional.begin());
    }
    for (TemplateValue& item : iterate(runtime, value)) {
      const TemplateValue tested = by_attribute ? attribute_path(runtime, item, attribute) : item;
      const bool holds = test.empty() ? is_true(tested) : runtime.test(test, tested, rest);
      if (holds == keeps) items.push_back(std::move(item));
    }
    return items;
  });
}

}  // namespace

const FilterTable& selecting_filters() {
  static const FilterTable kFilters = {{"map", map},
                                       {"select", select<true, false>},
                                       {"reject", select<false, false>},
                                       {"selectattr", select<true, true>},
                                       {"rejectattr", select<false, true>}};
  return kFilters;
}

Filter find_filter(std::string_view name) {
  for (const FilterTable* table :
       {&text_filters(), &sequence_filters(), &number_filters(), &selecting_filters()}) {
    const auto found = table->find(name);
    if (found != table->end()) return found->second;
  }
  return nullptr;
}

bool is_missing_filter(std::string_view name) {
  for (const char* missing : {"filesizeformat", "pprint", "random", "striptags", "urlencode",
                              "urlize", "wordwrap", "xmlattr"}) {
    if (name == missing) return true;
  }
  return false;
}

}  // namespace viaduct::jinja
