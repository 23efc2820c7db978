#pragma once
// Access to weights for layers without any.

#include "base/error.h"
#include "nn/access.h"

namespace viaduct::test {

class NoWeights final : public WeightAccess {
 public:
  Operand acquire(const Parameter&, WeightUse, int64_t) override {
    fail<Error>("the layers of this test have no weights");
  }
  void release(const Parameter&, WeightUse) override {}
};

}  // namespace viaduct::test
