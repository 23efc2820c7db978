#pragma once
// A box of a logical tensor: what a rank holds of it, what a checkpoint stores of it.

#include "tensor/shape.h"

namespace viaduct {

/// First index and size per dim, in elements.
struct Box {
  Shape begin;
  Shape size;

  bool operator==(const Box& other) const = default;
};

}  // namespace viaduct
