#pragma once
// How cells of a table are compared.

#include <initializer_list>
#include <string>
#include <string_view>

namespace viaduct {

std::string lower_case(std::string text);
bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes);

}  // namespace viaduct
