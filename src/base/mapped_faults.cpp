#include "base/mapped_faults.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

namespace viaduct {
namespace {

struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};  // addresses; begin 0: not in use
  std::atomic<int64_t> fault{0};            // offset + 1 of the first missing byte
  std::atomic<const std::string*> path{nullptr};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free &&
                  std::atomic<int64_t>::is_always_lock_free,
              "only lock-free atomics may be used in a signal handler");

constexpr int kSlots = 1 << 16;
Slot slots[kSlots];
std::atomic<int> used_slots{0};  // no slot from this index on was ever used
std::atomic<uintptr_t> page_bytes{4096};

struct sigaction default_action() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigemptyset(&action.sa_mask);
  return action;
}

// Calls only mmap and sigaction, which are bare system calls.
extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const int used = used_slots.load(std::memory_order_acquire);
  for (int i = 0; i < used; ++i) {
    Slot& slot = slots[i];
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const uintptr_t end = slot.end.load(std::memory_order_relaxed);
    if (begin == 0 || address < begin || address >= end) continue;
    int64_t none = 0;
    slot.fault.compare_exchange_strong(none, static_cast<int64_t>(address - begin) + 1);
    // The rest of the mapping in one call: page by page, a large file would take as many faults and
    // maps.
    const uintptr_t page = address & ~(page_bytes.load(std::memory_order_relaxed) - 1);
    void* zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    errno = saved_errno;
    return;
  }
  // Not an address of a mapped file: the same instruction faults again and now ends the process.
  const struct sigaction action = default_action();
  sigaction(signal, &action, nullptr);
  errno = saved_errno;
}

}  // namespace

MappedFaults::MappedFaults() {
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous_);
}

MappedFaults::~MappedFaults() {
  sigaction(SIGBUS, &previous_, nullptr);
}

MappingSlot::MappingSlot(const void* address, size_t bytes, const std::string& path) {
  for (int i = 0; i < kSlots && index_ < 0; ++i) {
    bool taken = false;
    if (!slots[i].taken.load(std::memory_order_relaxed) &&
        slots[i].taken.compare_exchange_strong(taken, true))
      index_ = i;
  }
  if (index_ < 0) return;
  int used = used_slots.load();
  while (used <= index_ && !used_slots.compare_exchange_weak(used, index_ + 1)) continue;
  Slot& slot = slots[index_];
  const auto begin = reinterpret_cast<uintptr_t>(address);
  slot.fault = 0;
  slot.path = new std::string(path);
  slot.end = begin + bytes;
  slot.begin.store(begin, std::memory_order_release);
}

MappingSlot::~MappingSlot() {
  if (index_ < 0) return;
  Slot& slot = slots[index_];
  slot.begin = 0;
  if (slot.fault != 0) return;  // kept for any_mapped_fault
  delete slot.path.exchange(nullptr);
  slot.taken.store(false, std::memory_order_release);
}

MappingSlot::MappingSlot(MappingSlot&& other) noexcept : index_(std::exchange(other.index_, -1)) {}

MappingSlot& MappingSlot::operator=(MappingSlot&& other) noexcept {
  std::swap(index_, other.index_);
  return *this;
}

int64_t MappingSlot::fault() const noexcept {
  return index_ < 0 ? -1 : slots[index_].fault.load(std::memory_order_relaxed) - 1;
}

std::string any_mapped_fault() {
  for (int i = 0; i < used_slots.load(); ++i) {
    const int64_t fault = slots[i].fault.load();
    const std::string* path = slots[i].path.load();
    if (fault != 0 && path != nullptr)
      return fmt::format("{}: byte {} could not be read", *path, fault - 1);
  }
  return "";
}

}  // namespace viaduct
