#pragma once
// Ids of tokens in JSON.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace viaduct {

/// `value` as a token id: an integer from 0 to 2³¹-2. IoError otherwise, naming `what`.
int32_t token_id_of(const nlohmann::json& value, std::string_view source, std::string_view what);

}  // namespace viaduct
