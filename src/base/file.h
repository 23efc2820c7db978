#pragma once
// Reading files: read-only memory maps and whole texts. Writing them: base/output_file.h.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/mapped_faults.h"
#include "base/output_file.h"

namespace viaduct {

/// A read-only memory map of a whole file. Throws IoError with the path and the system's reason.
///
/// A file may become shorter while it is mapped. Under a MappedFaults (base/mapped_faults.h) what is
/// missing then reads as zeros: who has read calls `check` before it believes what it read.
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

  /// True if a thread met bytes that are gone. Costs nothing; false does not say that the end of
  /// the last page is the file's.
  bool failed() const noexcept { return slot_.fault() >= 0; }
  /// IoError that names file and offset if bytes could not be read, or the file is shorter than
  /// when it was opened. Asks the system for its size.
  void check() const;

 private:
  std::filesystem::path path_;
  uint64_t device_ = 0, inode_ = 0;
  MappingSlot slot_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// The whole file as a string; IoError if it is missing or larger than `limit_bytes`.
std::string read_file(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 30);

}  // namespace viaduct
