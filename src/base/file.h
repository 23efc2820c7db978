#pragma once
// Reading files: read-only memory maps and whole texts. Writing them: base/output_file.h.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/output_file.h"

namespace viaduct {

/// A read-only memory map of a whole file. Throws IoError with the path and the system's reason.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// The whole file as a string; IoError if it is missing or larger than `limit_bytes`.
std::string read_file(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 30);

}  // namespace viaduct
