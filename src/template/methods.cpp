#include "template/methods.h"

#include <array>
#include <string_view>

#include "template/arguments.h"
#include "template/operators.h"

namespace viaduct::jinja {
namespace {

using Arguments = TemplateArguments;

TemplateValue view(const TemplateValue& self, ListForm form, Runtime& runtime) {
  std::vector<TemplateValue> items;
  const auto& entries = self.as_map().entries();
  runtime.budget.make(entries.size() * sizeof(TemplateValue) * 3);
  for (const auto& [key, value] : entries) {
    if (form == ListForm::items) {
      items.push_back(TemplateValue::list({key, value}, ListForm::tuple));
    } else {
      items.push_back(form == ListForm::keys ? key : value);
    }
  }
  return TemplateValue::list(std::move(items), form);
}

TemplateValue map_get(Runtime&, const TemplateValue& self, Arguments& arguments) {
  if (!arguments.named.empty()) template_fault("get takes no arguments by name");
  const Parameters given("get", arguments, {"key", "default"}, 1);
  const TemplateValue* found = self.as_map().find(given[0]);
  return found != nullptr ? *found : given.get(1, {});
}
TemplateValue map_keys(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("keys", arguments, {});
  return view(self, ListForm::keys, runtime);
}
TemplateValue map_values(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("values", arguments, {});
  return view(self, ListForm::values, runtime);
}
TemplateValue map_items(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("items", arguments, {});
  return view(self, ListForm::items, runtime);
}
TemplateValue copy(Runtime&, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("copy", arguments, {});
  return self;
}

TemplateValue list_count(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("count", arguments, {"value"}, 1);
  int64_t count = 0;
  for (const TemplateValue& item : self.as_list().items) count += equals(runtime, item, given[0]);
  return count;
}
TemplateValue list_index(Runtime& runtime, const TemplateValue& self, Arguments& arguments) {
  const Parameters given("index", arguments, {"value", "start", "stop"}, 1);
  const auto& items = self.as_list().items;
  const auto size = static_cast<int64_t>(items.size());
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t stop = clamp(given.integer(2, size));
  for (int64_t i = clamp(given.integer(1, 0)); i < stop; ++i) {
    if (equals(runtime, items[static_cast<size_t>(i)], given[0])) return i;
  }
  template_fault("the value is not in the list");
}

template <size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  for (const std::string_view other : names) {
    if (name == other) return true;
  }
  return false;
}

}  // namespace

Method find_method(const TemplateValue& self, const std::string& name, bool& changes) {
  static constexpr std::array<std::string_view, 5> kMapChanges = {"clear", "pop", "popitem",
                                                                  "setdefault", "update"};
  static constexpr std::array<std::string_view, 8> kListChanges = {
      "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  changes = false;
  if (self.is_text()) return find_text_method(name);
  if (self.is_map()) {
    if (name == "get") return map_get;
    if (name == "items") return map_items;
    if (name == "keys") return map_keys;
    if (name == "values") return map_values;
    if (name == "copy") return copy;
    changes = is_one_of(name, kMapChanges);
    return nullptr;
  }
  if (!self.is_list()) return nullptr;
  const ListForm form = self.as_list().form;
  if (form != ListForm::list && form != ListForm::tuple && form != ListForm::range) return nullptr;
  if (name == "count") return list_count;
  if (name == "index") return list_index;
  if (form == ListForm::list && name == "copy") return copy;
  changes = form == ListForm::list && is_one_of(name, kListChanges);
  return nullptr;
}

}  // namespace viaduct::jinja
