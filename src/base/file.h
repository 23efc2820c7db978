#pragma once
// Files: read-only memory maps, and writes that appear whole or not at all.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

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

/// A file under construction: writes go to `path` + ".tmp-<pid>"; `commit` flushes to disk and renames it to `path`. Without
/// `commit` the destructor removes the temporary file, so nothing half-written is ever seen under `path`.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends; throws IoError (with the reason, for example "No space left on device") on failure.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// fsync, rename, fsync of the folder.
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
};

/// Writes `text` as the whole content of `path`, atomically.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Flushes a folder's entries to disk, so that renames inside it survive a crash.
void sync_folder(const std::filesystem::path& folder);

}  // namespace viaduct
