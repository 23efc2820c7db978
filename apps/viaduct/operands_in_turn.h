#pragma once
// Operands that a calibration takes in turn, more of them than the last cache holds. In a step
// weights, kept activations and results are in memory when an op needs them; one and the same
// operand would be in the caches from the second call on.

#include <algorithm>
#include <cstdint>

#include "tensor/tensor.h"

namespace viaduct::cli {

class OperandsInTurn {
 public:
  /// `all`: `count` operands of equal shape, one behind the other along the first dim.
  OperandsInTurn(Tensor all, int64_t count)
      : all_(std::move(all)), count_(count), rows_(all_.dim(0) / count) {}

  /// Of the call with this number.
  Tensor at(int64_t call) const { return all_.slice(0, call % count_ * rows_, rows_); }

 private:
  Tensor all_;
  int64_t count_, rows_;
};

/// How many operands of so many bytes for one call the last cache cannot hold.
inline int64_t operands_beyond_cache(int64_t bytes_of_call, int64_t cache_bytes) {
  return std::max<int64_t>(1, (2 * cache_bytes + bytes_of_call - 1) / bytes_of_call);
}

}  // namespace viaduct::cli
