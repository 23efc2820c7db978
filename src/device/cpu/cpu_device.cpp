// The cpu device. With a plan, memory comes from one arena, each allocation at its planned place.
// Allocations that the plan does not have are made where the arena is free. Those that find no room
// there, and all allocations without a plan, come from the growable region: a freed block waits in
// the list of its size class for the next request of that class, so a steady step allocates nothing
// from the system. Beside a plan sizes vary from step to step (experts' rows), and blocks that wait
// are given back before another size is taken: the region never exceeds what was in use at once.
// Large blocks and the arena request huge pages.

#include <cstring>
#include <iterator>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "device/cpu/system_memory.h"
#include "device/device.h"
#include "device/planned_arena.h"
#include "device/size_class.h"

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 64;

// Blocks below this wait however many sizes there are.
constexpr int64_t kSmallBlockBytes = 1 << 16;

int64_t block_bytes(int64_t bytes) {
  return size_class(bytes, kAlignment, kHugePageBytes);
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : pool_(threads) {}
  ~CpuDevice() override {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) return_to_system(block);
    }
  }

  DeviceKind kind() const override { return DeviceKind::cpu; }
  ThreadPool& pool() override { return pool_; }

  void use_plan(const MemoryPlan& plan) override {
    VIADUCT_CHECK(DeviceError, arena_ == nullptr && memory().system_allocations == 0,
                  "cpu device: a memory plan must be given once, before the first allocation");
    arena_memory_ = SystemMemory(plan.arena_bytes);
    arena_ = std::make_unique<PlannedArena>(plan, arena_memory_.data(), arena_memory_.bytes());
    statistics().planned_bytes = arena_->bytes();
    statistics().reserved_bytes += arena_->bytes();
    ++statistics().system_allocations;
  }
  void begin_sequence(MemorySequence sequence) override {
    if (arena_) arena_->begin(sequence);
  }
  void end_sequence() override {
    if (arena_) arena_->end();
  }

  void copy_from_host(const Tensor& host, const Tensor& device) override { copy(host, device); }
  void copy_to_host(const Tensor& device, const Tensor& host) override { copy(device, host); }

 protected:
  void* take(int64_t bytes, MemoryTag tag) override {
    if (arena_) {
      if (void* place = arena_->take(bytes, tag)) return place;
      if (arena_->in_sequence()) {
        ++statistics().unplanned_allocations;
        statistics().unplanned_bytes += bytes;
        if (void* spare = arena_->take_spare(bytes, tag)) return spare;
      }
    }
    void* const block = take_unplanned(bytes);
    if (arena_ && arena_->in_sequence()) note_peak_beside_plan();
    return block;
  }
  void give(void* data, int64_t bytes) override {
    if (arena_ && arena_->give(data)) return;
    const int64_t size = block_bytes(bytes);
    // Between the sequences of a plan (loading, saving, …) large blocks are not kept: nothing would
    // reuse them soon, and the arena has its own memory.
    if (arena_ && !arena_->in_sequence() && size >= kHugePageBytes) {
      return_to_system(data);
      statistics().reserved_bytes -= size;
      return;
    }
    free_[size].push_back(data);
  }

 private:
  static void copy(const Tensor& from, const Tensor& to) {
    VIADUCT_CHECK(ShapeError,
                  from.dtype() == to.dtype() && from.elements() == to.elements() &&
                      from.is_contiguous() && to.is_contiguous(),
                  "copy: expected contiguous tensors of one dtype and size, got {} to {}",
                  describe(from), describe(to));
    if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.bytes()));
  }

  void* take_unplanned(int64_t bytes) {
    const int64_t size = block_bytes(bytes);
    auto& blocks = free_[size];
    if (!blocks.empty()) {
      void* block = blocks.back();
      blocks.pop_back();
      return block;
    }
    if (arena_ && size >= kSmallBlockBytes) make_room(size);
    void* block = nullptr;
    if (size >= kHugePageBytes) {
      SystemMemory memory(size);
      block = memory.data();
      large_.emplace(block, std::move(memory));
    } else {
      block = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
      VIADUCT_CHECK(DeviceError, block != nullptr,
                    "cpu device: no memory for {} bytes ({} bytes in use)", bytes,
                    memory().bytes_in_use);
    }
    statistics().reserved_bytes += size;
    ++statistics().system_allocations;
    return block;
  }
  /// Gives waiting blocks back that together have `bytes`, or all: the smallest one that suffices,
  /// else the largest ones.
  void make_room(int64_t bytes) {
    while (bytes > 0) {
      auto list = free_.lower_bound(bytes);
      while (list != free_.end() && list->second.empty()) ++list;
      if (list == free_.end()) {
        while (list != free_.begin() && std::prev(list)->second.empty()) --list;
        if (list == free_.begin() || std::prev(list)->first < kSmallBlockBytes) return;
        --list;
      }
      return_to_system(list->second.back());
      list->second.pop_back();
      statistics().reserved_bytes -= list->first;
      bytes -= list->first;
    }
  }
  void return_to_system(void* block) {
    if (large_.erase(block) == 0) std::free(block);
  }

  ThreadPool pool_;
  SystemMemory arena_memory_;
  std::unique_ptr<PlannedArena> arena_;  // null without a plan
  std::map<int64_t, std::vector<void*>> free_;
  std::unordered_map<void*, SystemMemory> large_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace viaduct
