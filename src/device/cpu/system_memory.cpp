#include "device/cpu/system_memory.h"

#include <sys/mman.h>

#include "base/error.h"

namespace viaduct {

SystemMemory::SystemMemory(int64_t bytes) {
  if (bytes <= 0) return;
  bytes_ = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const auto mapped = static_cast<size_t>(bytes_ + kHugePageBytes);
  void* start = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  VIADUCT_CHECK(DeviceError, start != MAP_FAILED, "cpu device: the system has no room for {} bytes",
                bytes);
  // The pages before the first huge-page boundary and after the last one needed are unmapped.
  auto* first = static_cast<char*>(start);
  const auto address = reinterpret_cast<uintptr_t>(first);
  const size_t before = (kHugePageBytes - address % kHugePageBytes) % kHugePageBytes;
  const size_t after = mapped - before - static_cast<size_t>(bytes_);
  if (before > 0) ::munmap(first, before);
  if (after > 0) ::munmap(first + before + bytes_, after);
  data_ = first + before;
  ::madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
}

SystemMemory::~SystemMemory() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace viaduct
