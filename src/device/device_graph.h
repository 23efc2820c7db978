#pragma once
// Work of a device that is captured once and launched again as one piece: the same kernels with the
// same arguments on the same memory.

#include <array>
#include <vector>

#include "device/memory_tag.h"
#include "timeline/record.h"

namespace viaduct {

/// Made by `Device::capture`; it may be launched on that device any number of times. It must not
/// outlive that device.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  /// What the program counted while it was captured.
  struct Totals {
    Cost cost;
    int64_t launches = 0;
    /// Bytes that it held at its fullest moment in addition to those before it, and the same by
    /// MemoryTag.
    int64_t peak_bytes = 0;
    std::array<int64_t, kMemoryTags> peak_bytes_by_tag{};
    /// Operations between ranks, which each launch does again.
    std::vector<CollectiveRecord> collectives;
  };
  Totals totals;
};

}  // namespace viaduct
