#include "ops/cuda/launch/attention_library.h"

#include <algorithm>
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

std::string attention_library_problem() {
  try {
    cudnn_calls();
    return "";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

AttentionLibrary::AttentionLibrary() : impl_(std::make_unique<Impl>()) {
  check_cudnn(impl_->calls, impl_->calls.cudnnCreate(&impl_->handle), "cudnnCreate");
}
AttentionLibrary::~AttentionLibrary() = default;

int64_t AttentionLibrary::kinds() const {
  return static_cast<int64_t>(impl_->plans.size());
}

void AttentionLibrary::prepare(const LibraryAttention& kind, ScratchPlaces memory, Stream stream) {
  constexpr int64_t kBytes = 2;  // of an element of heads
  const int64_t queries = kind.documents * kind.queries, keys = kind.documents * kind.keys;
  const auto bytes = [&](int64_t tokens, int64_t stride) { return tokens * stride * kBytes; };
  AttentionMemory places;
  places.workspace = memory.take(library_workspace(kind));
  // What is only read may be the same memory.
  places.q = places.k = places.v = places.d_out =
      memory.take(std::max({bytes(queries, kind.q.token), bytes(keys, kind.k.token),
                            bytes(keys, kind.v.token), bytes(queries, kind.d_out.token)}));
  places.out = memory.take(bytes(queries, kind.out.token));
  places.lse = memory.take(kind.heads * kind.all_queries * dtype_bytes(DType::f32));
  if (kind.backward) {
    places.delta = memory.take(kind.heads * queries * dtype_bytes(DType::f32));
    places.dq = memory.take(bytes(queries, kind.all_heads * kind.width));
    places.dk = memory.take(bytes(keys, kind.all_kv_heads * kind.width));
    places.dv = memory.take(bytes(keys, kind.all_kv_heads * kind.value_width));
  }
  if (memory.fits()) return run(kind, places, stream);
  impl_->plan(kind);
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
