#pragma once
// The layers of a model with images in front of its token embedding: patches, the vision tower's
// blocks, and the projector.

#include <vector>

#include "model/build_block.h"

namespace viaduct {

/// For a text model that `text` makes. ConfigError listing the sizes of tower and projector that
/// the tensor axis does not divide.
void build_vision(const BlockMaker& text, std::vector<Layer>& layers);

}  // namespace viaduct
