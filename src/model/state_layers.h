#pragma once
// Families whose layers pass a state along the row, in place of attention or beside it. None of
// them can be built: a folder is refused by the layer's name, and not only by its family's.

#include <string_view>

namespace viaduct {

/// What such layers of a model_type are called; empty for a type that is not known to have any.
std::string_view state_layers_of(std::string_view model_type);

}  // namespace viaduct
