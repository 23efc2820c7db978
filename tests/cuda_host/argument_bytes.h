#pragma once
// All bytes that an op may read and write, so that launches can be repeated and compared.

#include <cstring>
#include <map>
#include <vector>

#include "ops/for_each_tensor.h"

namespace viaduct::test {

/// The bytes of the storages of an op's tensors.
class ArgumentBytes {
 public:
  template <class Args>
  explicit ArgumentBytes(const Args& args) {
    for_each_tensor(args, [&](const Tensor& tensor) {
      if (tensor.defined()) saved_[tensor.storage().get()];
    });
    for (auto& [storage, bytes] : saved_) {
      const auto* data = static_cast<const char*>(storage->data());
      bytes.assign(data, data + storage->bytes());
    }
  }
  void restore() const {
    for (const auto& [storage, bytes] : saved_)
      if (!bytes.empty()) std::memcpy(storage->data(), bytes.data(), bytes.size());
  }
  bool operator==(const ArgumentBytes&) const = default;

 private:
  std::map<Storage*, std::vector<char>> saved_;
};

}  // namespace viaduct::test
