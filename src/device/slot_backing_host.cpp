#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/units.h"
#include "device/slot_backing.h"

namespace viaduct {
namespace {

class HostBacking final : public SlotBacking {
 public:
  explicit HostBacking(int64_t bytes) : bytes_(bytes) {
    void* const region = ::mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    VIADUCT_CHECK(DeviceError, region != MAP_FAILED,
                  "second memory in host memory: no region of {}: {}", format_bytes(bytes_),
                  std::strerror(errno));
    region_ = static_cast<std::byte*>(region);
  }
  ~HostBacking() override { ::munmap(region_, static_cast<size_t>(bytes_)); }
  HostBacking(const HostBacking&) = delete;
  HostBacking& operator=(const HostBacking&) = delete;

  void write(int64_t offset, const void* data, int64_t bytes) override {
    check(offset, bytes);
    std::memcpy(region_ + offset, data, static_cast<size_t>(bytes));
  }
  void read(int64_t offset, void* data, int64_t bytes) override {
    check(offset, bytes);
    std::memcpy(data, region_ + offset, static_cast<size_t>(bytes));
  }
  void reserve(int64_t bytes) override { check(0, bytes); }
  std::string describe() const override { return "host memory"; }

 private:
  void check(int64_t offset, int64_t bytes) const {
    VIADUCT_CHECK(IoError, bytes <= bytes_ - offset,
                  "second memory in host memory: full: {} bytes at {} are beyond its region of {}",
                  bytes, offset, format_bytes(bytes_));
  }

  std::byte* region_ = nullptr;
  int64_t bytes_;
};

}  // namespace

std::unique_ptr<SlotBacking> make_host_backing(int64_t most_bytes) {
  return std::make_unique<HostBacking>(most_bytes);
}

}  // namespace viaduct
