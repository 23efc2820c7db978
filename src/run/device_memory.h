#pragma once
// The second memory of a rank's device.

#include <memory>

#include "device/device.h"
#include "device/slot_memory.h"

namespace viaduct {

/// The memory that the settings describe; on a device with streams, host memory that is filled and
/// read by streams beside compute. Errors as those of the backings.
std::unique_ptr<SlotMemory> make_second_memory(const SecondMemorySettings& settings,
                                               Device& device);

}  // namespace viaduct
