#pragma once
// What holds a second memory's slots where the device has streams: host memory that the device
// copies to and from, on streams beside compute.

#include <memory>

#include "device/device.h"
#include "device/slot_backing.h"

namespace viaduct {

/// A backing whose copies are work of the device's streams: they begin after the earlier work of
/// compute, and compute, not the host, waits for them.
class StreamBacking : public SlotBacking {
 public:
  /// Starts a copy between `data` (of the device) and the slot at `offset`; its ticket.
  virtual int64_t start(bool to_slot, int64_t offset, void* data, int64_t bytes) = 0;
  /// Work given to compute from now on begins after the copy.
  virtual void wait(int64_t ticket) = 0;
  /// Nothing is stored in the slot any more: its memory may be reused.
  virtual void release(int64_t offset) = 0;
};

/// Host memory of at least `bytes`, which the device's copies read and write while the host
/// continues. DeviceError if the system has none.
using HostMemory = std::shared_ptr<void> (*)(int64_t bytes);

/// `device` outlives it.
std::unique_ptr<SlotBacking> make_stream_backing(Device& device, HostMemory allocate);

}  // namespace viaduct
