#pragma once
// Members of a JSON object that may be missing or have another type; errors name the place and the
// expected type.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

/// The JSON of a file (base/json_reader.h), which must be an object; nothing if there is no such
/// file.
std::optional<nlohmann::json> read_json_object(const std::filesystem::path& path);

/// `object[name]`, or null if `object` is not an object or has no such member, or it is null.
const nlohmann::json* find_member(const nlohmann::json& object, std::string_view name);

// Members with a default for those that are missing or null; IoError that starts with `where` if
// the type is wrong.
std::string string_member(const nlohmann::json& object, std::string_view name,
                          std::string_view where, std::string_view otherwise = "");
bool bool_member(const nlohmann::json& object, std::string_view name, std::string_view where,
                 bool otherwise);

}  // namespace viaduct
