#pragma once
// What the optimizers' definitions share: the weight that is written from a master.

#include "ops/dispatch.h"

namespace viaduct::reference {

/// Element i of `weight` = `master`, rounded through FP32 to narrower formats. Nothing for an
/// undefined weight.
inline void write_weight(const Tensor& weight, int64_t i, double master) {
  if (!weight) return;
  dispatch_floating(weight.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, double>) {
      weight.data<T>()[i] = master;
    } else {
      weight.data<T>()[i] = static_cast<T>(static_cast<float>(master));
    }
  });
}

}  // namespace viaduct::reference
