#include "template/template_value.h"

#include <algorithm>
#include <cmath>

#include "template/objects.h"
#include "template/template_error.h"

namespace viaduct {
namespace {

constexpr size_t kSmallMap = 8;  // entries that are searched one by one

int checked_depth(int depth) {
  if (depth > kDeepestValue) {
    template_fault("lists and maps nested deeper than {} levels", kDeepestValue);
  }
  return depth;
}

std::string hash_of_text(std::string_view text) {
  std::string hash = "s";
  hash += text;
  return hash;
}

}  // namespace

void TemplateMap::set(TemplateValue key, TemplateValue value) {
  depth = checked_depth(std::max(depth, std::max(key.depth(), value.depth()) + 1));
  if (places_.empty() && entries_.size() < kSmallMap) {
    if (!key.is_text())
      hash_text(key);  // a key that cannot be hashed is refused in an empty map too
    if (const TemplateValue* found = find(key)) {
      const auto known = std::find_if(entries_.begin(), entries_.end(),
                                      [&](const Entry& entry) { return &entry.second == found; });
      known->second = std::move(value);
      return;
    }
    entries_.emplace_back(std::move(key), std::move(value));
    return;
  }
  if (places_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) places_.emplace(hash_text(entries_[i].first), i);
  }
  const auto [place, added] = places_.emplace(hash_text(key), entries_.size());
  if (added) {
    entries_.emplace_back(std::move(key), std::move(value));
  } else {
    entries_[place->second].second = std::move(value);
  }
}

const TemplateValue* TemplateMap::find(std::string_view key) const {
  if (places_.empty()) {
    for (const Entry& entry : entries_) {
      if (entry.first.is_text() && entry.first.as_text() == key) return &entry.second;
    }
    return nullptr;
  }
  const auto place = places_.find(hash_of_text(key));
  return place == places_.end() ? nullptr : &entries_[place->second].second;
}

const TemplateValue* TemplateMap::find(const TemplateValue& key) const {
  if (key.is_text()) return find(std::string_view(key.as_text()));
  const std::string hash = hash_text(key);
  if (places_.empty()) {
    for (const Entry& entry : entries_) {
      if (hash_text(entry.first) == hash) return &entry.second;
    }
    return nullptr;
  }
  const auto place = places_.find(hash);
  return place == places_.end() ? nullptr : &entries_[place->second].second;
}

TemplateValue TemplateValue::undefined(std::string message) {
  TemplateValue value;
  value.value_ = TemplateUndefined{std::make_shared<const std::string>(std::move(message))};
  return value;
}

TemplateValue TemplateValue::list(std::vector<TemplateValue> items, ListForm form) {
  int deepest = 0;
  for (const TemplateValue& item : items) deepest = std::max(deepest, item.depth());
  TemplateValue value;
  value.value_ = std::make_shared<const TemplateList>(
      TemplateList{std::move(items), form, checked_depth(deepest + 1), {}});
  return value;
}

TemplateValue TemplateValue::range(std::vector<TemplateValue> items, std::string shown) {
  TemplateValue value;
  value.value_ = std::make_shared<const TemplateList>(
      TemplateList{std::move(items), ListForm::range, 1, std::move(shown)});
  return value;
}

TemplateValue TemplateValue::map(TemplateMap map) {
  TemplateValue value;
  value.value_ = std::make_shared<const TemplateMap>(std::move(map));
  return value;
}

int TemplateValue::depth() const {
  if (is_list()) return as_list().depth;
  if (is_map()) return as_map().depth;
  return is_object() ? as_object()->depth : 0;
}

bool TemplateValue::same_object(const TemplateValue& other) const {
  if (value_.index() != other.value_.index()) return false;
  if (is_text()) {
    return std::get<Text>(value_) == std::get<Text>(other.value_) || as_text() == other.as_text();
  }
  if (is_list()) return &as_list() == &other.as_list();
  if (is_map()) return &as_map() == &other.as_map();
  if (is_object()) return as_object() == other.as_object();
  if (is_float()) return as_float() == other.as_float();
  if (is_bool() || is_integer()) return as_integer() == other.as_integer();
  return is_none();
}

std::string type_name(const TemplateValue& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_float()) return "float";
  if (value.is_text()) return "str";
  if (value.is_map()) return "dict";
  if (value.is_object()) return object_name(*value.as_object());
  static constexpr const char* kNames[] = {"list",        "tuple",      "dict_keys",
                                           "dict_values", "dict_items", "range"};
  return kNames[static_cast<int>(value.as_list().form)];
}

std::string hash_text(const TemplateValue& key) {
  if (key.is_text()) return hash_of_text(key.as_text());
  if (key.is_none()) return "N";
  if (key.is_undefined()) return "U";
  if (key.is_float() && std::trunc(key.as_float()) == key.as_float() &&
      std::abs(key.as_float()) < 0x1p63) {
    return fmt::format("i{}", static_cast<int64_t>(key.as_float()));
  }
  if (key.is_float()) return fmt::format("f{}", key.as_float());
  if (key.is_number()) return fmt::format("i{}", key.as_integer());
  if (key.is_object()) return fmt::format("o{}", static_cast<const void*>(key.as_object().get()));
  if (key.is_list() && key.as_list().form == ListForm::tuple) {
    std::string hash = "(";
    for (const TemplateValue& item : key.as_list().items) {
      const std::string part = hash_text(item);
      if (hash.size() + part.size() > (size_t{1} << 20))
        template_fault("a key of a map is too long");
      hash += fmt::format("{}:", part.size());
      hash += part;
    }
    return hash;
  }
  template_fault("unhashable type: '{}'", type_name(key));
}

}  // namespace viaduct
