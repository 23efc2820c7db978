#pragma once
// Work of a device that is kept as it is and given again as one piece: the same kernels with the
// same arguments on the same memory.

#include <array>
#include <vector>

#include "device/memory_tag.h"
#include "timeline/record.h"

namespace viaduct {

/// Made by `Device::capture`, on whose device it may be launched any number of times. It must not
/// outlive that device.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  /// What the program counted while it was captured.
  struct Totals {
    Cost cost;
    int64_t launches = 0;
    /// Bytes that it held beyond those before it at its fullest moment, and by MemoryTag.
    int64_t peak_bytes = 0;
    std::array<int64_t, kMemoryTags> peak_bytes_by_tag{};
    /// Operations between ranks, which each launch does again.
    std::vector<CollectiveRecord> collectives;
  };
  Totals totals;
};

}  // namespace viaduct
