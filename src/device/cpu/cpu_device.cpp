// The cpu device. Memory comes from the system once and is kept: a block given back waits in the
// list of its size class for the next request of that class, so a steady step allocates nothing.
// Large blocks are aligned to huge pages and ask for them (transparent huge pages are on `madvise`
// on many machines).

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = 2 << 20;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Sizes of one class share a free list. Eight classes per power of two waste at most an eighth.
int64_t size_class(int64_t bytes) {
  int64_t step = kAlignment;
  while (step * 16 <= bytes) step *= 2;
  const int64_t rounded = round_up(bytes, step);
  return rounded >= kHugePage ? round_up(rounded, kHugePage) : rounded;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : pool_(threads) {}
  ~CpuDevice() override {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) std::free(block);
    }
  }

  DeviceKind kind() const override { return DeviceKind::cpu; }
  ThreadPool& pool() override { return pool_; }
  void wait(int, const Event&) override {}  // compute runs inline: every event has passed

  void copy_from_host(const Tensor& host, const Tensor& device) override { copy(host, device); }
  void copy_to_host(const Tensor& device, const Tensor& host) override { copy(device, host); }

 protected:
  void* take(int64_t bytes) override {
    const int64_t size = size_class(bytes);
    auto& blocks = free_[size];
    if (!blocks.empty()) {
      void* block = blocks.back();
      blocks.pop_back();
      return block;
    }
    void* block = std::aligned_alloc(
        static_cast<size_t>(size >= kHugePage ? kHugePage : kAlignment), static_cast<size_t>(size));
    VIADUCT_CHECK(DeviceError, block != nullptr,
                  "cpu device: no memory for {} bytes ({} bytes in use)", bytes,
                  memory().bytes_in_use);
    if (size >= kHugePage)
      ::madvise(block, static_cast<size_t>(size),
                MADV_HUGEPAGE);  // a wish; failure changes nothing
    statistics().reserved_bytes += size;
    ++statistics().system_allocations;
    return block;
  }
  void give(void* data, int64_t bytes) override { free_[size_class(bytes)].push_back(data); }

 private:
  static void copy(const Tensor& from, const Tensor& to) {
    VIADUCT_CHECK(ShapeError,
                  from.dtype() == to.dtype() && from.elements() == to.elements() &&
                      from.is_contiguous() && to.is_contiguous(),
                  "copy: expected contiguous tensors of one dtype and size, got {} to {}",
                  describe(from), describe(to));
    if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.bytes()));
  }

  ThreadPool pool_;
  std::map<int64_t, std::vector<void*>> free_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace viaduct
