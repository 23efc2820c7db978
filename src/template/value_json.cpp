#include <algorithm>
#include <vector>

#include "base/json.h"
#include "base/json_reader.h"
#include "template/large_integer.h"
#include "template/template_value.h"

namespace viaduct {
namespace {

using OrderedJson = nlohmann::ordered_json;

TemplateValue converted(const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return json.get<bool>();
    case OrderedJson::value_t::number_integer:
      return json.get<int64_t>();
    case OrderedJson::value_t::number_unsigned:
      return static_cast<int64_t>(json.get<uint64_t>());
    case OrderedJson::value_t::number_float:
      return json.get<double>();
    case OrderedJson::value_t::string:
      return json.get_ref<const std::string&>();
    case OrderedJson::value_t::array: {
      std::vector<TemplateValue> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) items.push_back(converted(item));
      return TemplateValue::list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      TemplateMap map;
      for (auto entry = json.begin(); entry != json.end(); ++entry) {
        map.set(TemplateValue(entry.key()), converted(entry.value()));
      }
      return TemplateValue::map(std::move(map));
    }
    default:
      return {};
  }
}

/// Whether as many digits stand in a row as the largest integer has: nearly no text has.
bool may_have_large_integer(std::string_view text) {
  constexpr int kDigits = 19;
  int digits = 0;
  return std::ranges::any_of(text, [&](char c) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    return digits >= kDigits;
  });
}

/// Refuses integers beyond 64 bits, which the parser makes numbers of floating point that a
/// template would show as such.
class LargeIntegers : public OrderedJson::json_sax_t {
 public:
  explicit LargeIntegers(const std::string& where) : where_(where) {}

  bool null() override { return next(); }
  bool boolean(bool) override { return next(); }
  bool number_integer(number_integer_t) override { return next(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) refuse(std::to_string(value));
    return next();
  }
  bool number_float(number_float_t, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) refuse(text);
    return next();
  }
  bool string(std::string&) override { return next(); }
  bool binary(binary_t&) override { return false; }  // never in text
  bool start_object(size_t) override { return open(false); }
  bool key(std::string& name) override {
    levels_.back().key = name;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(true); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const OrderedJson::exception&) override {
    return false;  // the text was read before
  }

 private:
  struct Level {
    bool is_array = false;
    size_t index = 0;  // of an array's next element
    std::string key;   // of an object's entry
  };

  bool next() {
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }
  bool open(bool is_array) {
    levels_.push_back({is_array, 0, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return next();
  }
  [[noreturn]] void refuse(const std::string& number) const {
    std::string place;
    for (const Level& level : levels_) {
      if (level.is_array) {
        place += fmt::format("[{}]", level.index);
      } else {
        (place += place.empty() ? "" : ".") += shown_name(level.key);
      }
    }
    throw LargeInteger(fmt::format(
        "{}: the integer {}{}{} is beyond 64 bits; expected one from {} to {}, or a text", where_,
        shown_name(number), place.empty() ? "" : " at ", place, INT64_MIN, INT64_MAX));
  }

  const std::string& where_;
  std::vector<Level> levels_;
};

}  // namespace

TemplateValue TemplateValue::from_json(std::string_view text, const std::string& where) {
  const OrderedJson json = parse_json<OrderedJson>(text, where);
  if (may_have_large_integer(text)) {
    LargeIntegers check(where);
    size_t taken = 0;
    scan_json<OrderedJson>(text, check, taken);
  }
  return converted(json);
}

}  // namespace viaduct
