#pragma once
// Finds races of a block's threads in shared memory, also those whose bits agree: each access is
// compared with the accesses of other threads to the same bytes that nothing orders before it
// (vector clocks, as in FastTrack, Flanagan and Freund 2009). `__syncthreads` orders all threads,
// `__syncwarp` its lanes; shuffles, ballots and atomics order nothing.
//
// The accesses are those that g++ reports of kernels compiled with -fsanitize=thread, whose calls
// race_watch.cpp defines in the place of the sanitizer's library, and those that the emulator makes
// for a thread: asynchronous copies (at their start and at the wait), loads of operands (ldmatrix).
// Products of warpgroups have rules of their own (warpgroups.h). Global memory is not watched.

#include <unordered_map>
#include <vector>

#include "cuda_host/emulator.h"

namespace cuda_host {

/// Watches the launches of this thread of the system as long as it lives. A race is an Error of the
/// launch, with block, both threads and the kind of both accesses.
class RaceWatch : public AccessWatch {
 public:
  RaceWatch();
  ~RaceWatch() override;

  void begin_block(int threads) override;
  void block_barrier() override;
  void warp_barrier(int first, uint32_t mask) override;
  void read(const void* at, size_t bytes) override { access(at, bytes, Kind::read); }
  void write(const void* at, size_t bytes) override { access(at, bytes, Kind::write); }
  void atomic(const void* at, size_t bytes) override { access(at, bytes, Kind::atomic); }

  int64_t accesses() const { return accesses_; }

 private:
  enum class Kind : uint8_t { read, write, atomic };
  struct Access {
    int thread;
    uint32_t time;  // of the thread's own clock
    Kind kind;
  };
  /// The accesses to a byte since the last barrier of the block, the latest of each thread and
  /// kind.
  using Byte = std::vector<Access>;

  void access(const void* at, size_t bytes, Kind kind);
  bool comes_before(const Access& earlier, int thread) const;

  // Barriers of the block forget everything before them, so clocks order lanes of a warp only.
  std::vector<uint32_t> clocks_;  // [threads, lanes]
  std::unordered_map<const char*, Byte> bytes_;
  int64_t accesses_ = 0;
};

}  // namespace cuda_host
