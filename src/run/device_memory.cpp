#include "run/device_memory.h"

#include "base/error.h"
#include "device/stream_backing.h"
#include "run/cuda_backend.h"

namespace viaduct {

std::unique_ptr<SlotMemory> make_second_memory(const SecondMemorySettings& settings,
                                               Device& device) {
  if (!device.executes() || !device.has_side_streams())
    return make_second_memory(settings, device.executes());
  VIADUCT_CHECK(ConfigError, !settings.path,
                "memory.offload_path: a file as the second memory of a GPU is not implemented yet; "
                "expected null (host memory)");
  return std::make_unique<SlotMemory>(make_stream_backing(device, cuda_backend().pinned_memory),
                                      settings.most_bytes);
}

}  // namespace viaduct
