#include "ops/cuda/launch/attention_library.h"

#include <limits>
#include <map>

#include "ops/cuda/launch/cudnn_attention.h"

namespace viaduct::cuda {
struct AttentionLibrary::Impl {
  const CudnnCalls& calls = cudnn_calls();
  cudnnHandle_t handle = nullptr;
  std::map<LibraryAttention, CudnnPlan> plans;

  ~Impl() {
    plans.clear();
    if (handle != nullptr) calls.cudnnDestroy(handle);
  }

  const CudnnPlan& plan(const LibraryAttention& kind) {
    auto found = plans.find(kind);
    if (found == plans.end())
      found = plans.emplace(kind, cudnn_attention_plan(calls, kind, {handle, nullptr})).first;
    return found->second;
  }
};

AttentionLibrary::AttentionLibrary() : impl_(std::make_unique<Impl>()) {
  check_cudnn(impl_->calls, impl_->calls.cudnnCreate(&impl_->handle), "cudnnCreate");
}
AttentionLibrary::~AttentionLibrary() = default;

int64_t AttentionLibrary::kinds() const {
  return static_cast<int64_t>(impl_->plans.size());
}

void AttentionLibrary::run(const LibraryAttention& kind, const AttentionMemory& memory,
                           Stream stream) {
  const float one = 1, masked = -std::numeric_limits<float>::infinity();
  std::vector<int64_t> ids{kCudnnQ, kCudnnK, kCudnnV, kCudnnOut, kCudnnLse, kCudnnScale};
  std::vector<const void*> addresses{memory.q,   memory.k,   memory.v,
                                     memory.out, memory.lse, &memory.scale};
  const auto bind = [&](int64_t id, const void* address) {
    ids.push_back(id);
    addresses.push_back(address);
  };
  if (kind.causal) bind(kCudnnMasked, &masked);
  if (kind.backward) {
    bind(kCudnnDOut, memory.d_out);
    bind(kCudnnDelta, memory.delta);
    bind(kCudnnOne, &one);
    bind(kCudnnDq, memory.dq);
    bind(kCudnnDk, memory.dk);
    bind(kCudnnDv, memory.dv);
  }
  const CudnnPlan& plan = impl_->plan(kind);
  check_cudnn(impl_->calls, impl_->calls.cudnnSetStream(impl_->handle, stream), "cudnnSetStream");
  plan.execute(impl_->handle, ids, addresses, memory.workspace);
}

}  // namespace viaduct::cuda
