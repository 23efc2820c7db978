#pragma once
// Memory straight from the operating system, on huge pages where it grants them.

#include <cstdint>
#include <utility>

namespace viaduct {

inline constexpr int64_t kHugePageBytes = 2 << 20;

/// A private mapping, aligned to huge pages, that requests them by madvise (on many machines
/// transparent huge pages are on `madvise`; the system may refuse). Zero, and without pages, until
/// it is written to.
class SystemMemory {
 public:
  SystemMemory() = default;
  /// At least `bytes`, rounded up to huge pages; DeviceError if the system has no room.
  explicit SystemMemory(int64_t bytes);
  ~SystemMemory();
  SystemMemory(SystemMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  SystemMemory& operator=(SystemMemory&& other) noexcept {
    std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace viaduct
