#pragma once
// Jinja's filters, with transformers' tojson.

#include <string>
#include <string_view>
#include <unordered_map>

#include "template/runtime.h"

namespace viaduct::jinja {

using Filter = TemplateValue (*)(Runtime& runtime, const TemplateValue& value,
                                 TemplateArguments& arguments);
using FilterTable = std::unordered_map<std::string_view, Filter>;

const FilterTable& text_filters();
const FilterTable& number_filters();
const FilterTable& sequence_filters();
const FilterTable& selecting_filters();

/// Null without such a filter.
Filter find_filter(std::string_view name);
/// Whether Jinja has a filter of this name that is not built here.
bool is_missing_filter(std::string_view name);

using Test = bool (*)(Runtime& runtime, const TemplateValue& value, TemplateArguments& arguments);
/// Null without such a test.
Test find_test(std::string_view name);

/// The attribute "a.b.0" of an item, as filters take it: a text or an integer.
TemplateValue attribute_path(Runtime& runtime, TemplateValue item, const TemplateValue& path);
/// A key of sort, unique, min, …: texts in lower case unless case counts.
TemplateValue sort_key(Runtime& runtime, const TemplateValue& item, const TemplateValue& attribute,
                       bool case_sensitive);

}  // namespace viaduct::jinja
