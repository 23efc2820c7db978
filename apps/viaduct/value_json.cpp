#include "value_json.h"

#include <nlohmann/json.hpp>

#include "config/convert.h"

namespace viaduct::cli {

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

}  // namespace viaduct::cli
