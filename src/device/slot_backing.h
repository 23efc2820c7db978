#pragma once
// What holds the bytes of a second memory's slots: a file, or a region of host memory.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace viaduct {

/// `write` and `read` are called by one thread at a time. Offsets are multiples of
/// MemorySlots::kAlignment; slots also end there, so the bytes between the end of a value and that
/// of its slot may be written.
class SlotBacking {
 public:
  virtual ~SlotBacking() = default;
  /// IoError that names the place, the bytes, and the system's reason.
  virtual void write(int64_t offset, const void* data, int64_t bytes) = 0;
  virtual void read(int64_t offset, void* data, int64_t bytes) = 0;
  /// Reserves the first `bytes`, as far as that is possible before they are written. IoError
  /// if there is no room.
  virtual void reserve(int64_t bytes) = 0;
  /// "file in /scratch, direct I/O", "host memory".
  virtual std::string describe() const = 0;
};

/// An unnamed file in `folder`, so that nothing remains, however the process ends. Direct I/O where
/// the file system supports it. ConfigError that names the folder if the file cannot be created.
std::unique_ptr<SlotBacking> make_file_backing(const std::filesystem::path& folder);
/// A region of host memory of up to `most_bytes` of address space; the system commits only what is
/// written. DeviceError if there is no such region.
std::unique_ptr<SlotBacking> make_host_backing(int64_t most_bytes);

}  // namespace viaduct
