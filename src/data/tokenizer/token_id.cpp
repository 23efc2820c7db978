#include "data/tokenizer/token_id.h"

#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace viaduct {

int32_t token_id_of(const nlohmann::json& value, std::string_view source, std::string_view what) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max() - 1;
  VIADUCT_CHECK(IoError, value.is_number_integer(), "{}: the id of {} must be an integer, found {}",
                source, what, value.type_name());
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(kLargest)
                        : value.get<int64_t>() >= 0 && value.get<int64_t>() <= kLargest;
  VIADUCT_CHECK(IoError, fits, "{}: the id of {} is {}, expected 0 to {}", source, what,
                value.dump(), kLargest);
  return static_cast<int32_t>(value.get<int64_t>());
}

void check_token_length(std::string_view token, int32_t id, std::string_view source) {
  VIADUCT_CHECK(ConfigError, token.size() <= kMaxTokenBytes,
                "{}: token {} has {} bytes, at most {} are supported", source, id, token.size(),
                kMaxTokenBytes);
}

}  // namespace viaduct
