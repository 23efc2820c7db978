#pragma once
// A memory besides the device's, for tensors that are not read for some time: the host's, or files.
// Copies run in parallel with the computation and complete at some later time, in any order.

#include <cstdint>

#include "tensor/tensor.h"

namespace viaduct {

class SecondMemory {
 public:
  using Id = int64_t;

  virtual ~SecondMemory() = default;
  /// Starts to copy a contiguous tensor of the device. Until `finish_put` its memory must not be
  /// written to or freed.
  virtual Id put(const Tensor& value) = 0;
  /// Waits for that copy.
  virtual void finish_put(Id id) = 0;
  /// Starts to copy it back into `value`, of the size that was put. Until `take` that memory must
  /// not be read, written to or freed.
  virtual void fetch(Id id, const Tensor& value) = 0;
  /// Waits for that copy, and deletes the stored value.
  virtual void take(Id id) = 0;
  /// Waits for that copy. The stored value stays, and may be fetched again.
  virtual void finish_fetch(Id id) = 0;
  /// Starts to copy a value of the same size over the stored one; otherwise as `put`. No copy of
  /// the stored value is in flight.
  virtual void put_again(Id id, const Tensor& value) = 0;
  /// Deletes the stored value, at any time: no copy of it is in flight afterwards.
  virtual void drop(Id id) noexcept = 0;
};

}  // namespace viaduct
