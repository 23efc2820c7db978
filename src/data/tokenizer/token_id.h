#pragma once
// Ids of tokens in JSON.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace viaduct {

/// `value` as a token id: an integer from 0 to 2³¹-2. IoError otherwise, naming `what`.
int32_t token_id_of(const nlohmann::json& value, std::string_view source, std::string_view what);

/// Longest token of a vocabulary, in bytes.
inline constexpr size_t kMaxTokenBytes = 1 << 16;

/// ConfigError (naming `source`) for a token that is longer.
void check_token_length(std::string_view token, int32_t id, std::string_view source);

}  // namespace viaduct
