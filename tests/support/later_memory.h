#pragma once
// A second memory on the host whose copies are done at a seeded later point, in seeded order: at
// the latest when somebody waits for them. It holds no tensor meanwhile, so that memory that is
// given up or written to too early shows; what has not been copied yet is poisoned.

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "nn/second_memory.h"

namespace viaduct::test {

class LaterMemory final : public SecondMemory {
 public:
  explicit LaterMemory(uint64_t seed) : random_(seed) {}

  Id put(const Tensor& value) override;
  void finish_put(Id id) override;
  void fetch(Id id, const Tensor& value) override;
  void take(Id id) override;
  void drop(Id id) noexcept override;

  /// Bytes that were put and not taken yet, and the most of them at one time.
  int64_t bytes() const { return bytes_; }
  int64_t peak_bytes() const { return peak_bytes_; }
  /// Copies of both directions so far, and those that were done before anybody waited.
  int64_t copies() const { return copies_; }
  int64_t early_copies() const { return early_; }

 private:
  struct Held {
    std::vector<std::byte> bytes;
    void* device = nullptr;  // of the copy under way; null: none
    bool leaves = true;
  };
  /// Does some of the copies that are under way.
  void go_on();
  void copy(Held& held);
  void finish(Id id);

  std::mt19937_64 random_;
  std::map<Id, Held> held_;
  Id next_ = 0;
  int64_t bytes_ = 0, peak_bytes_ = 0, copies_ = 0, early_ = 0;
};

}  // namespace viaduct::test
