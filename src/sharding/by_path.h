#pragma once
// The order of containers of parameters. Their contents are released in this order, and the record
// of a step must not depend on addresses.

#include <tuple>

#include "nn/parameter.h"

namespace viaduct {

struct ByPath {
  bool operator()(const Parameter* a, const Parameter* b) const {
    return std::tie(a->path, a) < std::tie(b->path, b);
  }
};

}  // namespace viaduct
