// In place of attention_library.cpp and of cudnn_*.cpp where a build found no header of cuDNN.

#include <fmt/format.h>

#include "base/error.h"
#include "ops/cuda/launch/attention_library.h"
#include "ops/cuda/launch/cudnn_version.h"

namespace viaduct::cuda {

struct AttentionLibrary::Impl {};

std::string attention_library_problem() {
  return fmt::format(
      "model.attention_backend=fused: this libviaduct_cuda.so was built without cuDNN, whose "
      "header cudnn_graph.h the build did not find: {}",
      kInstallCudnn);
}

AttentionLibrary::AttentionLibrary() {
  fail<DeviceError>("{}", attention_library_problem());
}
AttentionLibrary::~AttentionLibrary() = default;

void AttentionLibrary::run(const LibraryAttention&, const AttentionMemory&, Stream) {}

void AttentionLibrary::prepare(const LibraryAttention&, ScratchPlaces, Stream) {}

int64_t AttentionLibrary::kinds() const {
  return 0;
}

}  // namespace viaduct::cuda
