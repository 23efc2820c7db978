#pragma once
// The arguments of an op with their memory on another device.

#include <map>
#include <utility>

#include "device/device.h"
#include "ops/for_each_tensor.h"

namespace viaduct::test {

/// A copy of `args`, whose tensors are in host memory, with the same views of a block of the device
/// for each of their storages. Tensors that share memory there share it here.
template <class Args>
class DeviceArguments {
 public:
  DeviceArguments(Device& device, const Args& args) : device_(device), args_(args) {
    for_each_tensor(args_, [&](const Tensor& tensor) {
      if (tensor.defined()) add(tensor.storage());
    });
    for_each_tensor(args_, [&](const Tensor& tensor) {
      if (!tensor.defined()) return;
      // A field of args_, which is not constant.
      const_cast<Tensor&>(tensor) =
          tensor.in_storage(blocks_.at(tensor.storage().get()).second.storage());
    });
  }

  const Args& args() const { return args_; }
  void to_device() {
    for (const auto& [storage, block] : blocks_)
      if (storage->bytes() > 0) device_.copy_from_host(block.first, block.second);
  }
  /// Waits for the work on them.
  void to_host() {
    for (const auto& [storage, block] : blocks_)
      if (storage->bytes() > 0) device_.copy_to_host(block.second, block.first);
  }

 private:
  void add(const std::shared_ptr<Storage>& storage) {
    if (blocks_.contains(storage.get())) return;
    const Shape bytes{storage->bytes()};
    blocks_.emplace(storage.get(), std::pair(Tensor(storage, DType::u8, bytes),
                                             device_.allocate(DType::u8, bytes, MemoryTag::other)));
  }

  Device& device_;
  Args args_;
  std::map<Storage*, std::pair<Tensor, Tensor>> blocks_;  // host and device
};

}  // namespace viaduct::test
