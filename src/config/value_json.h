#pragma once
// Configuration values as JSON, and JSON as configuration values.

#include <nlohmann/json_fwd.hpp>

#include "config/value.h"

namespace viaduct {

/// Scalars become booleans and numbers if they parse as such; keys keep their order.
nlohmann::ordered_json to_json(const Value& value);
/// The value that YAML of the same text would be; it has no source.
Value value_of_json(const nlohmann::ordered_json& json);

}  // namespace viaduct
