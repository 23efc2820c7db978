#pragma once
// The version of the program, for files that another one may read.

#include <string_view>

namespace viaduct {

/// "0.1.0".
std::string_view program_version();

}  // namespace viaduct
