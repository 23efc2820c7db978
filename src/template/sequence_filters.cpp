// Filters over lists and maps.

#include <algorithm>

#include "template/arguments.h"
#include "template/filters.h"
#include "template/operators.h"
#include "template/printing.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

using Arguments = TemplateArguments;

TemplateValue length(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("length", arguments, {});
  return length_of(runtime, value);
}

TemplateValue list(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("list", arguments, {});
  return TemplateValue::list(iterate(runtime, value));
}

TemplateValue first(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("first", arguments, {});
  const TemplateValue none = TemplateValue::undefined("there is no first item of an empty list");
  if (value.is_object()) {
    if (auto* generator = dynamic_cast<TemplateGenerator*>(value.as_object().get())) {
      return generator->take_one().value_or(none);
    }
  }
  if (value.is_list()) {
    return value.as_list().items.empty() ? none : value.as_list().items.front();
  }
  const std::vector<TemplateValue> items = iterate(runtime, value);
  return items.empty() ? none : items.front();
}

/// What Python's reversed() can read backwards.
std::vector<TemplateValue> reversible(Runtime& runtime, const TemplateValue& value) {
  if (value.is_object()) template_fault("a {} cannot be reversed", type_name(value));
  return iterate(runtime, value);
}

TemplateValue last(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("last", arguments, {});
  const TemplateValue none = TemplateValue::undefined("there is no last item of an empty list");
  if (value.is_list()) {
    return value.as_list().items.empty() ? none : value.as_list().items.back();
  }
  const std::vector<TemplateValue> items = reversible(runtime, value);
  return items.empty() ? none : items.back();
}

TemplateValue reverse(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("reverse", arguments, {});
  std::vector<TemplateValue> items = iterate(runtime, value);
  std::reverse(items.begin(), items.end());
  if (!value.is_text()) {
    return make_generator(value.depth(), [items] { return items; });
  }
  std::string text;
  for (const TemplateValue& item : items) text += item.as_text();
  return TemplateValue(std::move(text));
}

TemplateValue join(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("join", arguments, {"d", "attribute"});
  const std::string separator = given.has(0) ? to_text(runtime, given[0]) : "";
  const bool by_attribute = given.has(1) && !given[1].is_none();
  std::string text;
  bool first_item = true;
  for (const TemplateValue& item : iterate(runtime, value)) {
    if (!first_item) text += separator;
    first_item = false;
    append_text(runtime, text, by_attribute ? attribute_path(runtime, item, given[1]) : item);
    runtime.budget.check_text(text.size());
  }
  runtime.budget.make_text(text.size());
  return TemplateValue(std::move(text));
}

/// Sorts by keys that were made once; equal ones keep their order, backwards too.
void sort_by(Runtime& runtime, std::vector<std::pair<TemplateValue, TemplateValue>>& keyed,
             bool backwards) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return backwards ? less(runtime, b.first, a.first) : less(runtime, a.first, b.first);
  });
}

TemplateValue sort(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::pair<TemplateValue, TemplateValue>> keyed;
  for (TemplateValue& item : iterate(runtime, value)) {
    // Several attributes may be named, with commas between them.
    std::vector<TemplateValue> keys;
    if (given.has(2) && given[2].is_text()) {
      std::string_view names = given[2].as_text();
      while (true) {
        const size_t comma = std::min(names.find(','), names.size());
        keys.push_back(
            sort_key(runtime, item, TemplateValue(names.substr(0, comma)), given.is_true(1)));
        if (comma == names.size()) break;
        names.remove_prefix(comma + 1);
      }
    } else {
      keys.push_back(sort_key(runtime, item, given.get(2, {}), given.is_true(1)));
    }
    keyed.emplace_back(TemplateValue::list(std::move(keys)), std::move(item));
  }
  sort_by(runtime, keyed, given.is_true(0));
  std::vector<TemplateValue> items;
  for (auto& entry : keyed) items.push_back(std::move(entry.second));
  return TemplateValue::list(std::move(items));
}

TemplateValue dict_sort(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  check_defined(value);
  const std::string by = given.has(1) ? given.text(1) : "key";
  if (by != "key" && by != "value") template_fault("dictsort: by is key or value, not \"{}\"", by);
  if (!value.is_map()) template_fault("dictsort needs a map, found '{}'", type_name(value));
  std::vector<std::pair<TemplateValue, TemplateValue>> keyed;
  for (const auto& [key, entry] : value.as_map().entries()) {
    keyed.emplace_back(sort_key(runtime, by == "key" ? key : entry, {}, given.is_true(0)),
                       TemplateValue::list({key, entry}, ListForm::tuple));
  }
  sort_by(runtime, keyed, given.is_true(2));
  std::vector<TemplateValue> items;
  for (auto& entry : keyed) items.push_back(std::move(entry.second));
  return TemplateValue::list(std::move(items));
}

TemplateValue unique(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("unique", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = given.is_true(0);
  const TemplateValue attribute = given.get(1, {});
  return make_generator(value.depth(), [&runtime, value, case_sensitive, attribute] {
    TemplateMap seen;
    std::vector<TemplateValue> items;
    for (TemplateValue& item : iterate(runtime, value)) {
      TemplateValue key = sort_key(runtime, item, attribute, case_sensitive);
      if (seen.find(key) != nullptr) continue;
      seen.set(std::move(key), true);
      items.push_back(std::move(item));
    }
    return items;
  });
}

template <bool largest>
TemplateValue extreme(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("min or max", arguments, {"case_sensitive", "attribute"});
  std::optional<TemplateValue> best, best_key;
  for (TemplateValue& item : iterate(runtime, value)) {
    TemplateValue key = sort_key(runtime, item, given.get(1, {}), given.is_true(0));
    const bool better =
        !best || (largest ? less(runtime, *best_key, key) : less(runtime, key, *best_key));
    if (!better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best ? *best : TemplateValue::undefined("no smallest or largest item of an empty list");
}

TemplateValue sum(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("sum", arguments, {"attribute", "start"});
  TemplateValue total = given.get(1, 0);
  if (total.is_text()) template_fault("sum cannot add texts; join does");
  const bool by_attribute = given.has(0) && !given[0].is_none();
  for (const TemplateValue& item : iterate(runtime, value)) {
    total = arithmetic(runtime, Operation::add, total,
                       by_attribute ? attribute_path(runtime, item, given[0]) : item);
  }
  return total;
}

TemplateValue batch(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = given.integer(0, 1);
  std::vector<TemplateValue> rows, row;
  for (TemplateValue& item : iterate(runtime, value)) {
    if (static_cast<int64_t>(row.size()) == size) {
      rows.push_back(TemplateValue::list(std::exchange(row, {})));
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (given.has(1) && !given[1].is_none() && static_cast<int64_t>(row.size()) < size) {
      runtime.budget.make(static_cast<size_t>(size) * sizeof(TemplateValue));
      row.resize(static_cast<size_t>(size), given[1]);
    }
    rows.push_back(TemplateValue::list(std::move(row)));
  }
  return make_generator(value.depth() + 1, [rows] { return rows; });
}

TemplateValue slice(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("slice", arguments, {"slices", "fill_with"}, 1);
  const int64_t slices = given.integer(0, 1);
  if (slices == 0) template_fault("slice: into no slices");
  const std::vector<TemplateValue> items = iterate(runtime, value);
  std::vector<TemplateValue> columns;
  const auto size = static_cast<int64_t>(items.size());
  runtime.budget.make(static_cast<size_t>(std::max<int64_t>(slices, 0)) * 64);
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool longer = i < size % slices;
    const int64_t end = begin + size / slices + (longer ? 1 : 0);
    std::vector<TemplateValue> column(items.begin() + begin, items.begin() + end);
    if (!longer && given.has(1) && !given[1].is_none()) column.push_back(given[1]);
    columns.push_back(TemplateValue::list(std::move(column)));
    begin = end;
  }
  return make_generator(value.depth() + 1, [columns] { return columns; });
}

TemplateValue items(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("items", arguments, {});
  if (!value.is_undefined() && !value.is_map()) {
    template_fault("items needs a map, found '{}'", type_name(value));
  }
  std::vector<TemplateValue> pairs;
  if (value.is_map()) {
    runtime.budget.make(value.as_map().size() * 3 * sizeof(TemplateValue));
    for (const auto& [key, entry] : value.as_map().entries()) {
      pairs.push_back(TemplateValue::list({key, entry}, ListForm::tuple));
    }
  }
  return make_generator(value.depth() + 1, [pairs] { return pairs; });
}

TemplateValue group_by(Runtime& runtime, const TemplateValue& value, Arguments& arguments) {
  const Parameters given("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const auto read = [&](const TemplateValue& item) {
    TemplateValue found = attribute_path(runtime, item, given[0]);
    return found.is_undefined() && given.has(1) && !given[1].is_none() ? given[1] : found;
  };
  std::vector<std::pair<TemplateValue, TemplateValue>> keyed;
  for (TemplateValue& item : iterate(runtime, value)) {
    TemplateValue key = sort_key(runtime, read(item), {}, given.is_true(2));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  sort_by(runtime, keyed, false);
  std::vector<TemplateValue> groups, group;
  for (size_t i = 0; i < keyed.size(); ++i) {
    group.push_back(keyed[i].second);
    if (i + 1 < keyed.size() && equals(runtime, keyed[i].first, keyed[i + 1].first)) continue;
    // Two entries: Python's named tuple of grouper and list.
    TemplateValue grouper = given.is_true(2) ? keyed[i].first : read(group[0]);
    groups.push_back(TemplateValue::list(
        {std::move(grouper), TemplateValue::list(std::exchange(group, {}))}, ListForm::tuple));
  }
  return TemplateValue::list(std::move(groups));
}

}  // namespace

TemplateValue attribute_path(Runtime& runtime, TemplateValue item, const TemplateValue& path) {
  if (!path.is_text()) return get_item(runtime, item, path);
  std::string_view rest = path.as_text();
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    item = get_item(runtime, item,
                    digits && part.size() < 18 ? TemplateValue(int64_t{std::stoll(part)})
                                               : TemplateValue(part));
    if (dot == rest.size()) return item;
    rest.remove_prefix(dot + 1);
  }
}

TemplateValue sort_key(Runtime& runtime, const TemplateValue& item, const TemplateValue& attribute,
                       bool case_sensitive) {
  TemplateValue key = attribute.is_none() ? item : attribute_path(runtime, item, attribute);
  return key.is_text() && !case_sensitive ? TemplateValue(to_lower(key.as_text())) : key;
}

const FilterTable& sequence_filters() {
  static const FilterTable kFilters = {
      {"length", length}, {"count", length},       {"list", list},
      {"first", first},   {"last", last},          {"reverse", reverse},
      {"join", join},     {"sort", sort},          {"dictsort", dict_sort},
      {"unique", unique}, {"min", extreme<false>}, {"max", extreme<true>},
      {"sum", sum},       {"batch", batch},        {"slice", slice},
      {"items", items},   {"groupby", group_by}};
  return kFilters;
}

}  // namespace viaduct::jinja
