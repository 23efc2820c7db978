#pragma once
// Runs CUDA kernels on the host: the threads of a block are fibers of one thread of the system,
// which run in a random legal order drawn from a seed. A kernel whose result depends on more than
// the order that barriers impose gives different bits with another seed.
//
//   - A thread runs until it waits: at a barrier of its block, or in a collective of its warp,
//     which the last lane to arrive performs for all.
//   - Blocks run in random order, one at a time or two in turn, round by round. In a block, each
//     round of the scheduler is either fair (every thread that can run does, in random order) or
//     skewed (one warp runs as far as it can, then the next): only the second shows reuse of shared
//     memory without a barrier.
//   - Shared memory is poisoned (0xFF, which is NaN in FP32) when a block begins.
//   - An asynchronous copy to shared memory completes at a random moment between its start and the
//     wait for it; until then its destination is poisoned. So do products of warpgroups
//     (warpgroups.h).
//   - Breaches of CUDA's rules with undefined behaviour are errors: lanes that meet in different
//     collectives, masks with lanes that have returned, barriers that some threads never reach,
//     copies that their thread does not wait for.
//
// Not covered: the memory model between blocks (fences), clusters, and the accuracy of the device's
// own mathematical functions.

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_host/fiber.h"
#include "cuda_host/warpgroups.h"

namespace cuda_host {

inline constexpr int kWarp = 32;
inline constexpr size_t kMostSharedBytes = 227 * 1024;

/// A rule that a kernel broke, with block and thread.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// A grid of blocks or a block of threads.
struct Extent {
  unsigned x = 1, y = 1, z = 1;
  constexpr Extent(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  int64_t count() const { return int64_t{x} * y * z; }
};

/// A collective of a warp: the input of each lane, and its output.
struct Warp {
  uint32_t live = 0, arrived = 0, mask = 0;
  int operation = 0;
  uint64_t in[kWarp][8], out[kWarp][2];
};

/// Is told what orders the accesses of a block's threads to shared memory, and those accesses that
/// are not in the code of kernels (race_watch.h).
class AccessWatch {
 public:
  virtual ~AccessWatch() = default;
  virtual void begin_block(int threads) = 0;
  virtual void block_barrier() = 0;
  /// `__syncwarp` of these lanes of the warp that begins at thread `first`. Shuffles and other
  /// collectives order no memory.
  virtual void warp_barrier(int first, uint32_t mask) = 0;
  virtual void read(const void* at, size_t bytes) = 0;
  virtual void write(const void* at, size_t bytes) = 0;
  virtual void atomic(const void* at, size_t bytes) = 0;
};

class Emulator {
 public:
  /// 0: threads and blocks in order; otherwise a random legal order. Applies to later launches.
  void set_seed(uint64_t seed) { seed_ = seed; }
  /// Runs `body` once for each thread. Throws an error if the kernel breaks a rule; what it has
  /// written until then remains.
  void launch(Extent grid, Extent block, size_t dynamic_bytes, const std::function<void()>& body);

  /// Of later launches; null: none. One at a time runs blocks that are watched.
  void set_watch(AccessWatch* watch) { watch_ = watch; }
  /// Whether a thread of a block runs now, and these bytes begin in the block's shared memory.
  bool is_shared(const void* at) const;
  /// Ends the launch with the error, from code that must not throw. The running thread goes no
  /// further.
  void stop(const std::string& what);

  // For the running thread.
  int thread_number() const { return current_->number; }
  const Index& thread_index() const { return current_->index; }
  const Index& block_index() const { return block_index_; }
  const Extent& block_extent() const { return block_; }
  const Extent& grid_extent() const { return grid_; }
  int lane() const { return current_->number % kWarp; }
  /// `__syncthreads_or`: the result is the same for all threads.
  bool block_barrier(bool value);
  /// The block's shared memory named `key`, aligned to 128 bytes; poisoned when the block begins.
  void* shared(const void* key, size_t bytes);
  void* dynamic_shared();
  /// Throws an error unless these bytes are in the block's shared memory, at a multiple of their
  /// number.
  void check_shared(const void* at, size_t bytes, const char* what) const;
  /// Starts a copy of `read` bytes to shared memory, followed by zeros up to `bytes`.
  void begin_copy(void* to, const void* from, size_t bytes, size_t read);
  void commit_copies();
  /// Waits for all committed groups of copies of the thread except the latest `but`.
  void wait_for_copies(int but);
  /// Products of warpgroups, for `wgmma` and `fence.proxy.async`.
  void start_product(const ProductStart& start, int operation);
  void fence_products() { products_.fence(current_->number); }
  void commit_products() { products_.commit(current_->number); }
  void wait_for_products(int but);
  void fence_writes() { products_.fence_writes(current_->number); }
  uint32_t shared_address(const void* at) const { return products_.address_of(at); }
  /// The thread has written to shared memory what a product may read.
  void note_write(const void* to, size_t bytes);
  // For the watch.
  void note_read(const void* at, size_t bytes) {
    if (watch_ != nullptr) watch_->read(at, bytes);
  }
  void note_atomic(const void* at, size_t bytes) {
    if (watch_ != nullptr) watch_->atomic(at, bytes);
  }
  void warp_barrier(uint32_t mask, int operation);
  /// All lanes of `mask` bring `in`; the last one to arrive runs `perform`, then all get `out`.
  /// `operation` names the collective and its place: lanes must agree in it.
  void collective(uint32_t mask, int operation, const void* in, size_t in_bytes, void* out,
                  size_t out_bytes, void (*perform)(Warp&));
  [[noreturn]] void fail(const std::string& what) const;

 private:
  enum class Wait : uint8_t { none, block, warp, products, left };
  struct Thread {
    Fiber* fiber = nullptr;
    Index index;
    int number = 0;
    Wait wait = Wait::none;
  };
  struct Memory {
    const void* key = nullptr;
    size_t bytes = 0;
    std::shared_ptr<void> data;
    void reserve(size_t size);
    void poison();
  };

  /// Asynchronous copies of a thread.
  struct Copy {
    char* to;
    const char* from;
    size_t bytes, read;
    int group;
    bool landed = false;
    void land();
  };
  struct Copies {
    std::vector<Copy> list;  // started and not waited for
    int groups = 0;          // committed
  };

  static void thread_main();
  void begin_launch(Extent grid, Extent block, size_t dynamic_bytes,
                    const std::function<void()>& body);
  void begin_block(int64_t number);
  void run_together(Emulator& other);
  /// A round of the scheduler.
  void step();
  void land_some_copies();
  void join_product(const Warp& warp);
  void run_fair(bool& ran);
  void run_skewed(bool& ran);
  bool run(Thread& thread);
  void release_block();
  void pause();

  uint64_t seed_ = 0;
  AccessWatch* watch_ = nullptr;
  std::unique_ptr<Emulator> partner_;  // runs the second of two blocks
  std::mt19937_64 random_;
  const std::function<void()>* body_ = nullptr;
  Extent grid_, block_;
  Index block_index_;
  Fiber scheduler_;
  std::vector<Fiber> fibers_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Copies> copies_;  // by thread
  bool any_copies_ = false;
  Warpgroups products_{*this};
  bool any_products_ = false;
  std::vector<int> order_;
  std::vector<Memory> shared_;
  Memory dynamic_;
  Thread* current_ = nullptr;
  int live_ = 0, at_barrier_ = 0;
  bool any_ = false, any_result_ = false;
  std::string error_;
};

/// For this thread of the system; while a thread of a kernel runs, the emulator of its block.
struct CurrentEmulator {
  Emulator own;
  Emulator* now = &own;
};
inline CurrentEmulator& current_emulator() {
  static thread_local CurrentEmulator current;
  return current;
}
inline Emulator& emulator() {
  return *current_emulator().now;
}

}  // namespace cuda_host
