#pragma once
// The table of models as the binary holds it.

#include <string_view>

namespace viaduct {

extern const std::string_view kModelsCsv;

}  // namespace viaduct
