#pragma once
// A memory beside the device's, for what is not read for some time: the host's, or files. Copies
// run beside the computation and are complete at some later time, in any order.

#include <cstdint>

#include "tensor/tensor.h"

namespace viaduct {

class SecondMemory {
 public:
  using Id = int64_t;

  virtual ~SecondMemory() = default;
  /// Starts to copy a contiguous tensor of the device. Until `finish_put` nobody writes to its
  /// memory or gives it back.
  virtual Id put(const Tensor& value) = 0;
  /// Waits for that copy.
  virtual void finish_put(Id id) = 0;
  /// Starts to copy it back into `value`, of the size that was put. Until `take` nobody reads,
  /// writes or gives back that memory.
  virtual void fetch(Id id, const Tensor& value) = 0;
  /// Waits for that copy, and forgets what was put.
  virtual void take(Id id) = 0;
  /// Forgets what was put, at any time: no copy of it is under way any more.
  virtual void drop(Id id) noexcept = 0;
};

}  // namespace viaduct
