#include "model/hf_config.h"

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "model/hf_fields.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostTexts = 1 << 20;
constexpr JsonLimits kLimits{.bytes = size_t{16} << 20, .depth = 32};

}  // namespace

struct HfConfig::State {
  Json json;
  std::set<std::string, std::less<>> read;

  const Json* find(std::string_view name) {
    read.emplace(name);
    const auto found = json.find(name);
    return found == json.end() || found->is_null() ? nullptr : &*found;
  }
};

HfConfig::HfConfig(std::unique_ptr<State> state, std::string where)
    : state_(std::move(state)), where_(std::move(where)) {}
HfConfig::HfConfig(std::string_view text, std::string where)
    : HfConfig(of_json(parse_json<Json>(text, where, kLimits), where)) {}
HfConfig::~HfConfig() = default;
HfConfig::HfConfig(HfConfig&&) noexcept = default;

HfConfig HfConfig::of_json(Json json, std::string where) {
  VIADUCT_CHECK(ConfigError, json.is_object(), "{}: expected a JSON object, found {}", where,
                json.type_name());
  auto state = std::make_unique<State>();
  state->json = std::move(json);
  return HfConfig(std::move(state), std::move(where));
}

void HfConfig::wrong_type(std::string_view name, std::string_view expected) const {
  const auto found = state_->json.find(name);
  if (found == state_->json.end() || found->is_null())
    fail<ConfigError>("{}: {} is missing (expected {})", where_, name, expected);
  fail<ConfigError>("{}: {} is {}, expected {}", where_, name,
                    found->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60),
                    expected);
}

bool HfConfig::has(std::string_view name) const {
  return state_->find(name) != nullptr;
}

bool HfConfig::mentions(std::string_view name) const {
  return state_->json.contains(name);
}

bool HfConfig::is_list(std::string_view name) const {
  const Json* value = state_->find(name);
  return value != nullptr && value->is_array();
}

int64_t HfConfig::integer(std::string_view name, std::optional<int64_t> fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !(value->is_number_integer() || value->is_number_float()))
    wrong_type(name, "an integer");
  const double number = value->get<double>();
  if (!(std::abs(number) < 9e15) || number != std::floor(number)) wrong_type(name, "an integer");
  return value->is_number_integer() ? value->get<int64_t>() : static_cast<int64_t>(number);
}

int64_t HfConfig::integer_or_none(std::string_view name, int64_t fallback) {
  return integer(name, mentions(name) ? 0 : fallback);
}

double HfConfig::number(std::string_view name, std::optional<double> fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_number()) wrong_type(name, "a number");
  return value->get<double>();
}

bool HfConfig::boolean(std::string_view name, std::optional<bool> fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_boolean()) wrong_type(name, "true or false");
  return value->get<bool>();
}

bool HfConfig::switched_on(std::string_view name, bool fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr) return fallback;
  if (value->is_number_integer()) return value->get<int64_t>() != 0;
  if (!value->is_boolean()) wrong_type(name, "true, false or an integer");
  return value->get<bool>();
}

std::string HfConfig::text(std::string_view name, std::optional<std::string> fallback) {
  const Json* value = state_->find(name);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_string()) wrong_type(name, "a string");
  return value->get<std::string>();
}

std::vector<int64_t> HfConfig::integers(std::string_view name) {
  const Json* value = state_->find(name);
  if (value == nullptr) return {};
  if (value->is_number_integer()) return {value->get<int64_t>()};
  if (!value->is_array()) wrong_type(name, "an integer or a list of integers");
  std::vector<int64_t> list;
  for (const Json& item : *value) {
    if (!item.is_number_integer()) wrong_type(name, "an integer or a list of integers");
    list.push_back(item.get<int64_t>());
  }
  return list;
}

std::vector<double> HfConfig::numbers(std::string_view name) {
  const Json* value = state_->find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) wrong_type(name, "a list of numbers");
  std::vector<double> list;
  for (const Json& item : *value) {
    if (!item.is_number()) wrong_type(name, "a list of numbers");
    list.push_back(item.get<double>());
  }
  return list;
}

std::vector<std::string> HfConfig::texts(std::string_view name) {
  const Json* value = state_->find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) wrong_type(name, "a list of strings");
  std::vector<std::string> list;
  for (const Json& item : *value) {
    if (!item.is_string()) wrong_type(name, "a list of strings");
    list.push_back(item.get<std::string>());
  }
  return list;
}

std::vector<std::string> HfConfig::repeated_texts(std::string_view name) {
  const Json* value = state_->find(name);
  if (value == nullptr) return {};
  constexpr const char* kExpected = "a list of pairs: a list of strings, and how often they come";
  if (!value->is_array()) wrong_type(name, kExpected);
  std::vector<std::string> list;
  for (const Json& pair : *value) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_array() || !pair[1].is_number_integer())
      wrong_type(name, kExpected);
    for (const Json& item : pair[0])
      if (!item.is_string()) wrong_type(name, kExpected);
    const auto times = pair[1].get<int64_t>();
    // Bounds the work that a damaged file can cause.
    if (times < 0 || times * std::ssize(pair[0]) + std::ssize(list) > kMostTexts)
      wrong_type(name, kExpected);
    for (int64_t i = 0; i < times; ++i)
      for (const Json& item : pair[0]) list.push_back(item.get<std::string>());
  }
  return list;
}

HfConfig HfConfig::object(std::string_view name) {
  const Json* value = state_->find(name);
  if (value == nullptr || !value->is_object()) wrong_type(name, "an object");
  return of_json(*value, fmt::format("{}: {}", where_, name));
}

void HfConfig::ignore(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) state_->read.emplace(name);
}

std::vector<std::string> HfConfig::finish(UnknownFields how) const {
  std::vector<std::string> problems, unknown;
  for (const auto& [name, value] : state_->json.items()) {
    if (value.is_null() || state_->read.contains(name) || cannot_change_numbers(name)) continue;
    const std::string found =
        value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
    if (const auto field = neutral_field(name, value)) {
      if (!field->neutral) {
        problems.push_back(fmt::format("{}: field {} is {}, which is not supported (supported: {})",
                                       where_, name, found, field->expected));
      }
    } else if (how == UnknownFields::refused || looks_numerical(name, value)) {
      problems.push_back(
          fmt::format("{}: field {} is not supported: it is unknown, and its value {} may change "
                      "the computation; if it does not, remove it from the file",
                      where_, name, found));
    } else {
      unknown.push_back(name);
    }
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return unknown;
}

}  // namespace viaduct
