#include "config/value_json.h"

#include "base/json.h"
#include "config/convert.h"

namespace viaduct {

using Json = nlohmann::ordered_json;

Json to_json(const Value& value) {
  bool flag = false;
  int64_t whole = 0;
  double number = 0;
  switch (value.kind) {
    case Value::Kind::null:
      return nullptr;
    case Value::Kind::scalar:
      if (read_value(value, flag)) return flag;
      if (read_value(value, whole)) return whole;
      if (read_value(value, number)) return number;
      return value.scalar;
    case Value::Kind::list: {
      Json list = Json::array();
      for (const Value& item : value.items) list.push_back(to_json(item));
      return list;
    }
    case Value::Kind::map: {
      Json map = Json::object();
      for (const auto& [key, entry] : value.entries) map[key] = to_json(entry);
      return map;
    }
  }
  return nullptr;
}

Value value_of_json(const Json& json) {
  if (json.is_string()) return Value::of_scalar(json.get<std::string>(), /*quoted=*/true);
  Value value;
  if (json.is_array()) {
    value.kind = Value::Kind::list;
    for (const Json& item : json) value.items.push_back(value_of_json(item));
  } else if (json.is_object()) {
    value.kind = Value::Kind::map;
    for (const auto& [key, entry] : json.items())
      value.entries.emplace_back(key, value_of_json(entry));
  } else if (!json.is_null()) {
    value = Value::of_scalar(json.dump());
  }
  return value;
}

}  // namespace viaduct
