#pragma once
// A mapped file as Storage, so that tensors can be views of it and keep it alive.

#include <filesystem>
#include <memory>

#include "base/file.h"
#include "tensor/tensor.h"

namespace viaduct {

struct MappedStorage {
  std::shared_ptr<Storage> storage;
  std::shared_ptr<const MappedFile> file;  // for `check` after bytes of it were used
};

/// The whole file, read-only: a write through a view faults. IoError if it cannot be mapped.
MappedStorage map_storage(const std::filesystem::path& path);

/// After bytes of a file of weights were used: `MappedFile::check`, and their pages go. A model's
/// file is read once, while the memory for what is made of it fills.
void check_and_give_back(const MappedFile& file);

}  // namespace viaduct
