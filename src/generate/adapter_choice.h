#pragma once
// Which of several adapters a prompt asks for: by its name, in the member "adapter" of its line.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace viaduct {

/// The name that a line says; "" for null: none of them. Nothing if it has no such member.
/// ConfigError that starts with `where` if it is no text.
std::optional<std::string> chosen_adapter(const nlohmann::json& line, const std::string& where);

/// Its number for Generator::use: 1, 2, … in the order of `names`; 0 for nothing and "".
/// ConfigError that starts with `where` for another name, with the nearest one.
int64_t adapter_number(const std::optional<std::string>& chosen,
                       const std::vector<std::string>& names, const std::string& where);

}  // namespace viaduct
