#pragma once
// Random numbers of one row of data: they depend on a key and the row's number alone, so that a row
// is the same in every layout and after a resumption.

#include <cstddef>
#include <cstdint>

#include "base/philox.h"

namespace viaduct {

class RowDraws {
 public:
  RowDraws(uint64_t key, int64_t row) : key_(key), row_(static_cast<uint64_t>(row)) {}

  bool happens(double probability) {
    return static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }
  /// Uniform in [0, most].
  size_t up_to(size_t most) {
    return static_cast<size_t>(static_cast<unsigned __int128>(next()) * (most + 1) >> 64);
  }

 private:
  uint64_t next() {
    const auto bits = philox4x32(key_, count_++, row_);
    return uint64_t{bits[0]} << 32 | bits[1];
  }

  uint64_t key_, row_, count_ = 0;
};

}  // namespace viaduct
