#include "nn/parameter.h"

#include <utility>

namespace viaduct {

Part whole_part(std::string name, const Shape& logical_shape, bool transposed) {
  Part part;
  part.name = std::move(name);
  part.logical_shape = part.box.size = part.box.begin = logical_shape;
  for (int i = 0; i < logical_shape.rank(); ++i) part.box.begin[i] = 0;
  part.transposed = transposed;
  return part;
}

}  // namespace viaduct
