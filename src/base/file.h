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
/// A file may become shorter while it is mapped. Under a MappedFaults (base/mapped_faults.h)
/// missing bytes then read as zeros: after reading, call `check` before using the data.
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

  /// True if a thread read bytes that are gone. Costs nothing. False does not prove that the rest
  /// of the last page belongs to the file.
  bool failed() const noexcept { return slot_.fault() >= 0; }
  /// IoError with file and offset if bytes could not be read, or if the file is shorter than when
  /// it was opened. Queries the system for the file's size.
  void check() const;
  /// Takes the pages that were read out of the process, which counts them as its memory. They stay
  /// in the system's cache, from where they come back when they are read again.
  void give_back() const noexcept;

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
