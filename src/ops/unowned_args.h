#pragma once
// Arguments of an op that runs later: views of the same memory, which the program may free in the
// meantime, since whoever uses it next comes later, too.

#include <memory>

#include "ops/for_each_tensor.h"

namespace viaduct {

/// The same view of memory that somebody else owns.
inline Tensor unowned(const Tensor& tensor) {
  if (!tensor) return tensor;
  const Storage& block = *tensor.storage();
  return tensor.in_storage(std::make_shared<Storage>(block.data(), block.bytes(), nullptr));
}

template <class Args>
Args unowned_args(Args args) {
  for_each_tensor(args, [](const Tensor& tensor) {
    auto& field = const_cast<Tensor&>(tensor);  // of `args`, which is ours
    field = unowned(field);
  });
  return args;
}

}  // namespace viaduct
