#include "cuda_host/race_watch.h"

#include <algorithm>

namespace cuda_host {
namespace {

thread_local RaceWatch* watch = nullptr;

const char* name_of(int kind) {
  constexpr const char* kNames[] = {"read", "write", "atomic"};
  return kNames[kind];
}

}  // namespace

RaceWatch::RaceWatch() {
  watch = this;
  emulator().set_watch(this);
}

RaceWatch::~RaceWatch() {
  emulator().set_watch(nullptr);
  watch = nullptr;
}

void RaceWatch::begin_block(int threads) {
  const int warps = (threads + kWarp - 1) / kWarp;
  clocks_.assign(static_cast<size_t>(warps) * kWarp * kWarp, 0);
  block_barrier();
}

void RaceWatch::block_barrier() {
  bytes_.clear();
  for (size_t thread = 0; thread < clocks_.size() / kWarp; ++thread)
    clocks_[thread * kWarp + thread % kWarp] = 1;
}

void RaceWatch::warp_barrier(int first, uint32_t mask) {
  uint32_t joined[kWarp] = {};
  const auto clock = [&](int lane) { return &clocks_[static_cast<size_t>(first + lane) * kWarp]; };
  const auto for_lanes = [&](auto&& f) {
    for (int lane = 0; lane < kWarp; ++lane)
      if ((mask >> lane & 1) != 0) f(lane);
  };
  for_lanes([&](int lane) {
    for (int i = 0; i < kWarp; ++i) joined[i] = std::max(joined[i], clock(lane)[i]);
  });
  for_lanes([&](int lane) {
    std::copy(joined, joined + kWarp, clock(lane));
    ++clock(lane)[lane];
  });
}

bool RaceWatch::comes_before(const Access& earlier, int thread) const {
  if (earlier.thread == thread) return true;
  if (earlier.thread / kWarp != thread / kWarp) return false;
  return clocks_[static_cast<size_t>(thread) * kWarp +
                 static_cast<size_t>(earlier.thread % kWarp)] >= earlier.time;
}

void RaceWatch::access(const void* at, size_t bytes, Kind kind) {
  Emulator& e = emulator();
  if (!e.is_shared(at)) return;
  ++accesses_;
  const int thread = e.thread_number();
  const uint32_t now =
      clocks_[static_cast<size_t>(thread) * kWarp + static_cast<size_t>(thread % kWarp)];
  for (const char* byte = static_cast<const char*>(at);
       byte != static_cast<const char*>(at) + bytes; ++byte) {
    Byte& known = bytes_[byte];
    for (const Access& earlier : known) {
      const bool conflict = earlier.kind != kind || kind == Kind::write;
      if (conflict && !comes_before(earlier, thread)) {
        return e.stop(std::string("a race in shared memory: ") + name_of(static_cast<int>(kind)) +
                      " of a byte whose " + name_of(static_cast<int>(earlier.kind)) +
                      " by thread " + std::to_string(earlier.thread) + " is not ordered before it");
      }
    }
    // What comes before this access comes before all that this access comes before.
    std::erase_if(known, [&](const Access& earlier) {
      return (earlier.thread == thread && earlier.kind == kind) ||
             (kind == Kind::write && comes_before(earlier, thread));
    });
    known.push_back({thread, now, kind});
  }
}

}  // namespace cuda_host

// The calls that g++ puts at each access of code compiled with -fsanitize=thread, without the
// sanitizer's library.
namespace {

void note(const void* at, size_t bytes, bool write) {
  using cuda_host::watch;
  if (watch == nullptr) return;
  write ? watch->write(at, bytes) : watch->read(at, bytes);
}

}  // namespace

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* at, unsigned long bytes) {
  note(at, bytes, false);
}
void __tsan_write_range(void* at, unsigned long bytes) {
  note(at, bytes, true);
}
#define VIADUCT_ACCESS(bytes)                    \
  void __tsan_read##bytes(void* at) {            \
    note(at, bytes, false);                      \
  }                                              \
  void __tsan_write##bytes(void* at) {           \
    note(at, bytes, true);                       \
  }                                              \
  void __tsan_volatile_read##bytes(void* at) {   \
    note(at, bytes, false);                      \
  }                                              \
  void __tsan_volatile_write##bytes(void* at) {  \
    note(at, bytes, true);                       \
  }                                              \
  void __tsan_unaligned_read##bytes(void* at) {  \
    note(at, bytes, false);                      \
  }                                              \
  void __tsan_unaligned_write##bytes(void* at) { \
    note(at, bytes, true);                       \
  }
// Atomics of the host's own code, such as those of shared pointers.
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t* at, uint32_t value, int) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
uint32_t __tsan_atomic32_fetch_sub(volatile uint32_t* at, uint32_t value, int) {
  return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST);
}
VIADUCT_ACCESS(1)
VIADUCT_ACCESS(2)
VIADUCT_ACCESS(4)
VIADUCT_ACCESS(8)
VIADUCT_ACCESS(16)
#undef VIADUCT_ACCESS
}
