#pragma once
// A descriptor of cuDNN's backend: an object with attributes, which is complete once finalized.

#include <string>
#include <utility>

#include "ops/cuda/launch/cudnn_calls.h"

namespace viaduct::cuda {

/// DeviceError with the library's reason unless the call succeeded. `call` says what was called.
void check_cudnn(const CudnnCalls& calls, cudnnStatus_t status, const std::string& call);

class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(const CudnnCalls& calls, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept { swap(other); }
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    swap(other);
    return *this;
  }

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values) const;
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const T& value) const {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) const {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
  }
  void finalize() const;
  /// The status, where it may be that of a descriptor that the library does not support.
  cudnnStatus_t try_finalize() const { return calls_->cudnnBackendFinalize(descriptor_); }
  /// Number of values read, at most `count`.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              void* values) const;

 private:
  void swap(CudnnDescriptor& other) {
    std::swap(calls_, other.calls_);
    std::swap(descriptor_, other.descriptor_);
  }

  const CudnnCalls* calls_ = nullptr;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace viaduct::cuda
