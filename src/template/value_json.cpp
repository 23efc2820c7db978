#include "base/json.h"
#include "base/json_reader.h"
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
    case OrderedJson::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX)) return static_cast<double>(number);
      return static_cast<int64_t>(number);
    }
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

}  // namespace

TemplateValue TemplateValue::from_json(std::string_view text, const std::string& where) {
  return converted(parse_json<OrderedJson>(text, where));
}

}  // namespace viaduct
