#pragma once
// A second memory on the host whose copies run later, at seeded points and in seeded order, at the
// latest when they are waited for. It does not hold the tensors meanwhile, so that memory freed or
// written too early is detected; memory not yet copied is poisoned.

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "device/second_memory.h"

namespace viaduct::test {

class LaterMemory final : public SecondMemory {
 public:
  explicit LaterMemory(uint64_t seed) : random_(seed) {}

  Id put(const Tensor& value) override;
  void finish_put(Id id) override;
  void fetch(Id id, const Tensor& value) override;
  void take(Id id) override;
  void finish_fetch(Id id) override;
  void put_again(Id id, const Tensor& value) override;
  void drop(Id id) noexcept override;

  /// Bytes that were put and not yet taken, and their maximum.
  int64_t bytes() const { return bytes_; }
  int64_t peak_bytes() const { return peak_bytes_; }
  /// Number of copies in both directions so far, and of those done before they were waited for.
  int64_t copies() const { return copies_; }
  int64_t early_copies() const { return early_; }

 private:
  struct Held {
    std::vector<std::byte> bytes;
    void* device = nullptr;  // of the copy in flight; null if none
    bool leaves = true;
  };
  /// Performs some of the copies in flight.
  void go_on();
  void copy(Held& held);
  void finish(Id id);

  std::mt19937_64 random_;
  std::map<Id, Held> held_;
  Id next_ = 0;
  int64_t bytes_ = 0, peak_bytes_ = 0, copies_ = 0, early_ = 0;
};

}  // namespace viaduct::test
