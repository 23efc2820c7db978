#include "device/stream_backing.h"

#include <map>
#include <vector>

#include "base/error.h"
#include "device/memory_slots.h"

namespace viaduct {
namespace {

/// Bytes that are not owned.
Tensor unowned(void* data, int64_t bytes) {
  return {std::make_shared<Storage>(data, bytes, [](Storage&) {}), DType::u8, {bytes}};
}

class PinnedBacking final : public StreamBacking {
 public:
  PinnedBacking(Device& device, HostMemory allocate) : device_(device), allocate_(allocate) {}
  /// Copies use the memory until they are complete.
  ~PinnedBacking() override {
    try {
      for (const char* stream : {kLeave, kCome})
        device_.wait_host(device_.record_event(device_.stream(stream)));
    } catch (...) {  // the device has failed, and copies nothing
    }
  }

  int64_t start(bool to_slot, int64_t offset, void* data, int64_t bytes) override {
    Slot& slot = slots_[offset];
    if (slot.memory == nullptr) take(slot, bytes);
    const int stream = device_.stream(to_slot ? kLeave : kCome);
    // Behind what writes the tensor, and behind the last copy of the same host memory.
    device_.wait(stream, device_.record_event(kComputeStream));
    if (slot.last) device_.wait(stream, *slot.last);
    device_.launched(stream);
    const Tensor here = unowned(data, bytes), there = unowned(slot.memory.get(), bytes);
    if (to_slot)
      device_.copy(here, there, stream);
    else
      device_.copy(there, here, stream);
    slot.last = device_.record_event(stream);
    slot.tickets.push_back(next_);
    events_.emplace(next_, *slot.last);
    return next_++;
  }

  void wait(int64_t ticket) override {
    const auto event = events_.find(ticket);
    VIADUCT_CHECK(ShapeError, event != events_.end(), "second memory: there is no copy {}", ticket);
    device_.wait(kComputeStream, event->second);
  }

  void release(int64_t offset) override {
    const auto found = slots_.find(offset);
    if (found == slots_.end()) return;
    for (const int64_t ticket : found->second.tickets) events_.erase(ticket);
    found->second.tickets.clear();
    free_.emplace(found->second.bytes, std::move(found->second));
    slots_.erase(found);
  }

  void write(int64_t, const void*, int64_t) override { refuse(); }
  void read(int64_t, void*, int64_t) override { refuse(); }
  /// Memory is allocated slot by slot: pinned memory is taken from the whole machine.
  void reserve(int64_t) override {}
  std::string describe() const override { return "pinned host memory"; }

 private:
  static constexpr const char* kLeave = "offload";
  static constexpr const char* kCome = "fetch";

  struct Slot {
    std::shared_ptr<void> memory;
    int64_t bytes = 0;
    std::optional<Event> last;  // behind the last copy of the memory
    std::vector<int64_t> tickets;
  };

  /// Memory that an earlier slot of this size has left, or new memory.
  void take(Slot& slot, int64_t bytes) {
    const int64_t size = MemorySlots::rounded(bytes);
    if (const auto left = free_.find(size); left != free_.end()) {
      slot = std::move(left->second);
      free_.erase(left);
      return;
    }
    slot.memory = allocate_(size);
    slot.bytes = size;
  }
  [[noreturn]] static void refuse() {
    fail<IoError>("second memory: pinned host memory is copied by streams");
  }

  Device& device_;
  HostMemory allocate_;
  std::map<int64_t, Slot> slots_;      // by offset
  std::multimap<int64_t, Slot> free_;  // by bytes
  std::map<int64_t, Event> events_;    // by ticket
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<SlotBacking> make_stream_backing(Device& device, HostMemory allocate) {
  return std::make_unique<PinnedBacking>(device, allocate);
}

}  // namespace viaduct
