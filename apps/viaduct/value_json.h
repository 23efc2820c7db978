#pragma once
// Configuration values as JSON.

#include <nlohmann/json_fwd.hpp>

#include "config/value.h"

namespace viaduct::cli {

/// Scalars become booleans and numbers if they parse as such; keys keep their order.
nlohmann::ordered_json to_json(const Value& value);

}  // namespace viaduct::cli
