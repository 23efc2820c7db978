#pragma once
// A cuda device whose streams have chosen priorities.

#include <functional>
#include <memory>
#include <string_view>

#include "device/cuda/cuda_device.h"

namespace viaduct {

/// Whether the stream of a name goes before computation; empty: all streams but compute do, which
/// never does.
using StreamChoice = std::function<bool(std::string_view stream)>;

/// `make_cuda_device` with these streams of the highest priority, and the others of the lowest.
std::unique_ptr<CudaDevice> make_cuda_device(const CudaDeviceSettings& settings,
                                             StreamChoice has_priority);

}  // namespace viaduct
