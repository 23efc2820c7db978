#pragma once
// What a template computes with: Python's values as far as templates can tell them apart. A value
// is cheap to copy: texts, lists and maps are shared and do not change after they are made.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace viaduct {

class TemplateValue;

/// A name that has no value; its message says why, for the error of using it.
struct TemplateUndefined {
  std::shared_ptr<const std::string> message;
};
struct TemplateNone {};

/// A text in UTF-8. `markup`: Python's Markup (what |safe makes), which escapes what is added to
/// it.
struct TemplateText {
  std::string bytes;
  bool markup = false;
};

/// How Python would call a list: they differ in their text, in equality and in what can be done.
enum class ListForm { list, tuple, keys, values, items, range };

struct TemplateList {
  std::vector<TemplateValue> items;
  ListForm form = ListForm::list;
  int depth = 1;      // of nested lists and maps
  std::string shown;  // of a range: its text
};

/// A map in the order of insertion. Keys are anything that Python can hash.
class TemplateMap {
 public:
  using Entry = std::pair<TemplateValue, TemplateValue>;

  /// Adds an entry, or replaces the value of a key that is there.
  void set(TemplateValue key, TemplateValue value);
  /// Null without such a key.
  const TemplateValue* find(const TemplateValue& key) const;
  const TemplateValue* find(std::string_view key) const;
  const TemplateValue* find(const char* key) const { return find(std::string_view(key)); }
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth = 1;

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> places_;  // of large maps, by the text of hash_text()
};

/// What only the room itself makes: functions, macros, namespaces, generators, `loop`.
struct TemplateObject {
  virtual ~TemplateObject() = default;
  int depth = 1;
};

class TemplateValue {
 public:
  using List = std::shared_ptr<const TemplateList>;
  using Map = std::shared_ptr<const TemplateMap>;
  using Text = std::shared_ptr<const TemplateText>;
  using Object = std::shared_ptr<TemplateObject>;

  TemplateValue() : value_(TemplateNone{}) {}
  TemplateValue(bool value) : value_(value) {}
  TemplateValue(int value) : value_(int64_t{value}) {}
  TemplateValue(int64_t value) : value_(value) {}
  TemplateValue(double value) : value_(value) {}
  TemplateValue(std::string value, bool markup = false)
      : value_(std::make_shared<const TemplateText>(TemplateText{std::move(value), markup})) {}
  TemplateValue(std::string_view value) : TemplateValue(std::string(value)) {}
  TemplateValue(const char* value) : TemplateValue(std::string(value)) {}
  TemplateValue(Object object) : value_(std::move(object)) {}

  static TemplateValue undefined(std::string message);
  /// Both check the depth of nesting: TemplateFault beyond kDeepestValue.
  static TemplateValue list(std::vector<TemplateValue> items, ListForm form = ListForm::list);
  static TemplateValue range(std::vector<TemplateValue> items, std::string shown);
  static TemplateValue map(TemplateMap map);
  /// The value of a JSON text, in the order of its keys, read within the limits of
  /// base/json_reader.h. IoError that starts with `where` if it is not JSON; LargeInteger.
  static TemplateValue from_json(std::string_view text, const std::string& where);

  bool is_undefined() const { return holds<TemplateUndefined>(); }
  bool is_none() const { return holds<TemplateNone>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_integer() const { return holds<int64_t>(); }  // not a bool
  bool is_float() const { return holds<double>(); }
  bool is_number() const { return is_bool() || is_integer() || is_float(); }
  bool is_text() const { return holds<Text>(); }
  bool is_list() const { return holds<List>(); }
  bool is_map() const { return holds<Map>(); }
  bool is_object() const { return holds<Object>(); }

  bool as_bool() const { return std::get<bool>(value_); }
  /// Of an integer or bool.
  int64_t as_integer() const { return is_bool() ? as_bool() : std::get<int64_t>(value_); }
  /// Of any number.
  double as_float() const {
    return is_float() ? std::get<double>(value_) : static_cast<double>(as_integer());
  }
  const std::string& as_text() const { return std::get<Text>(value_)->bytes; }
  bool is_markup() const { return is_text() && std::get<Text>(value_)->markup; }
  const TemplateList& as_list() const { return *std::get<List>(value_); }
  const TemplateMap& as_map() const { return *std::get<Map>(value_); }
  const Object& as_object() const { return std::get<Object>(value_); }
  const std::string& undefined_message() const {
    return *std::get<TemplateUndefined>(value_).message;
  }
  /// Levels of lists and maps; 0 for what holds no values.
  int depth() const;
  /// Whether both are the same object (Python's `is`).
  bool same_object(const TemplateValue& other) const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  std::variant<TemplateUndefined, TemplateNone, bool, int64_t, double, Text, List, Map, Object>
      value_;
};

/// Deeper nesting of lists and maps is an error: it would exhaust the stack.
inline constexpr int kDeepestValue = 200;

/// Python's name of the value's type: "str", "NoneType", …
std::string type_name(const TemplateValue& value);
/// A text that is equal for equal keys of a map. TemplateFault for what Python cannot hash.
std::string hash_text(const TemplateValue& key);

}  // namespace viaduct
