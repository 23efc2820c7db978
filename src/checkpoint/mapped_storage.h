#pragma once
// A mapped file as Storage, so that tensors can be views of it and keep it alive.

#include <filesystem>
#include <memory>

#include "tensor/tensor.h"

namespace viaduct {

/// The whole file, read-only: a write through a view faults. IoError if it cannot be mapped.
std::shared_ptr<Storage> map_storage(const std::filesystem::path& path);

}  // namespace viaduct
