#include "ops/cuda/launch/cudnn_descriptor.h"

#include "base/error.h"

namespace viaduct::cuda {

void check_cudnn(const CudnnCalls& calls, cudnnStatus_t status, const std::string& call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char reason[512] = "";
  calls.cudnnGetLastErrorString(reason, sizeof reason);
  fail<DeviceError>("attention by cuDNN: {}: {}{}{}", call, calls.cudnnGetErrorString(status),
                    *reason == '\0' ? "" : ": ", reason);
}

CudnnDescriptor::CudnnDescriptor(const CudnnCalls& calls, cudnnBackendDescriptorType_t type)
    : calls_(&calls) {
  check_cudnn(calls, calls.cudnnBackendCreateDescriptor(type, &descriptor_),
              fmt::format("creation of descriptor {}", static_cast<int>(type)));
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) calls_->cudnnBackendDestroyDescriptor(descriptor_);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          int64_t count, const void* values) const {
  check_cudnn(*calls_, calls_->cudnnBackendSetAttribute(descriptor_, name, type, count, values),
              fmt::format("attribute {}", static_cast<int>(name)));
}

void CudnnDescriptor::finalize() const {
  check_cudnn(*calls_, try_finalize(), "cudnnBackendFinalize");
}

int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             int64_t count, void* values) const {
  int64_t found = 0;
  check_cudnn(*calls_,
              calls_->cudnnBackendGetAttribute(descriptor_, name, type, count, &found, values),
              fmt::format("reading attribute {}", static_cast<int>(name)));
  return found;
}

}  // namespace viaduct::cuda
