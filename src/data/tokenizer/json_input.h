#pragma once
// JSON from files that may be broken or hostile: limits before parsing, and typed access with
// errors that name the place and the expected type.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

/// Parses `text`. IoError, naming `source`, if it is malformed or nested deeper than 64.
nlohmann::json parse_json(std::string_view text, std::string_view source);

/// The JSON document of a file, which must be an object; nothing if there is no such file.
std::optional<nlohmann::json> read_json_object(const std::filesystem::path& path);

/// `object[name]`, or null if `object` is not an object or has no such member.
const nlohmann::json* find_member(const nlohmann::json& object, std::string_view name);

// Members with a default for those that are missing or null; IoError if the type is another.
std::string string_member(const nlohmann::json& object, std::string_view name,
                          std::string_view source, std::string_view otherwise = "");
bool bool_member(const nlohmann::json& object, std::string_view name, std::string_view source,
                 bool otherwise);

/// `value` as a token id: an integer from 0 to 2³¹-2. IoError otherwise, naming `what`.
int32_t token_id_of(const nlohmann::json& value, std::string_view source, std::string_view what);

}  // namespace viaduct
