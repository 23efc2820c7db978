#include "checkpoint/joined_tensors.h"

#include <cstring>

#include "base/error.h"

namespace viaduct {

const TensorInfo* JoinedTensors::find(const std::string& name) const {
  const auto at = joined_.find(name);
  return at == joined_.end() ? nullptr : &infos_[at->second.info];
}

Tensor JoinedTensors::tensor(const std::string& name) const {
  const auto at = joined_.find(name);
  if (at == joined_.end()) fail_missing(name);
  const Joined& joined = at->second;
  if (joined.parts.empty()) return split_.tensor(name);
  const TensorInfo& info = infos_[joined.info];
  const Tensor result = host_tensor(info.dtype, info.shape);
  auto* to = static_cast<std::byte*>(result.raw());
  for (const std::string& part : joined.parts) {
    const Tensor one = split_.tensor(part);
    std::memcpy(to, one.raw(), static_cast<size_t>(one.bytes()));
    to += one.bytes();
  }
  split_.check_read();
  return result;
}

}  // namespace viaduct
