#pragma once
// The part of NumPy's legacy generator `numpy.random.RandomState` that data order depends on:
// seeding by one integer and `shuffle`, bit for bit, so that a data set is read in the same order
// as by programs that use NumPy.

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace viaduct {

/// MT19937 (Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998)), seeded like
/// RandomState(seed): NumPy's integer seeding is that paper's initialization, which the C++
/// standard fixes for std::mt19937 too.
class NumpyRandomState {
 public:
  /// `seed` in [0, 2^32), as NumPy requires.
  explicit NumpyRandomState(uint32_t seed) : generator_(seed) {}

  /// Uniform in [0, max], both included: draws 32 bits (64 where max needs them), keeps as many low
  /// bits as max has, and draws again while that is above max.
  uint64_t interval(uint64_t max);

  /// Fisher and Yates' shuffle from the last element down, as RandomState.shuffle does for arrays
  /// of one dimension. The swaps do not depend on the values, so several are drawn ahead and their
  /// elements prefetched: in arrays larger than the caches each swap would otherwise stall on
  /// memory.
  template <class T>
  void shuffle(std::span<T> values) {
    constexpr size_t kAhead = 64;
    uint64_t partners[kAhead];
    for (size_t last = values.size(); last-- > 1;) {
      const size_t count = std::min(kAhead, last);
      for (size_t k = 0; k < count; ++k) {
        partners[k] = interval(last - k);
        __builtin_prefetch(&values[partners[k]], 1);
      }
      for (size_t k = 0; k < count; ++k) std::swap(values[last - k], values[partners[k]]);
      last -= count - 1;
    }
  }

 private:
  std::mt19937 generator_;
};

}  // namespace viaduct
