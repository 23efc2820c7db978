#pragma once
// Families of which one part has no implementation here, while all others have: a folder is refused
// by that part's name, and not only by its family's.

#include <string_view>

namespace viaduct {

/// What models of a model_type have and no layer here does; empty for other types.
std::string_view missing_part_of(std::string_view model_type);

}  // namespace viaduct
