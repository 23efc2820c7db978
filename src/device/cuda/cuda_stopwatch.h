#pragma once
// Times the work of a GPU's compute stream by events on the GPU.

#include <memory>

#include "device/cuda/cuda_device.h"
#include "device/stopwatch.h"

namespace viaduct {

/// The device outlives it. DeviceError for other devices.
std::unique_ptr<Stopwatch> make_event_stopwatch(Device& device);

}  // namespace viaduct
