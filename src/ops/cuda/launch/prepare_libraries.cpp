#include "ops/cuda/launch/prepare_libraries.h"

#include "ops/cuda/launch/attention_library.h"
#include "ops/cuda/launch/product_library.h"
#include "ops/cuda/library_call.h"

namespace viaduct::cuda {

void prepare_libraries(CudaDevice& device, const std::set<std::string>& calls) {
  const auto [data, bytes] = device.planned_memory();
  const ScratchPlaces memory(data, bytes);
  for (const std::string& call : calls) {
    device.launched(kComputeStream);
    const Stream stream = device.handle(kComputeStream);
    const auto kind = noted_kind(call);
    if (const auto* product = std::get_if<ProductKind>(&kind))
      device.state<ProductLibrary>().prepare(*product, memory, stream);
    else
      device.state<AttentionLibrary>().prepare(std::get<LibraryAttention>(kind), memory, stream);
  }
  device.finish();
}

}  // namespace viaduct::cuda
