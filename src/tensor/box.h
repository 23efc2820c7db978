#pragma once
// A box of a logical tensor: the part that a rank holds, or that a checkpoint entry stores.

#include "tensor/shape.h"

namespace viaduct {

/// First index and size per dim, in elements.
struct Box {
  Shape begin;
  Shape size;

  bool operator==(const Box& other) const = default;
};

}  // namespace viaduct
