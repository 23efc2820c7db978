#pragma once
// What an expansion notes about the entries of a record: once for the recorded program, and once
// for each micro-batch whose actions are instances.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace viaduct {

/// Values by micro-batch of an instance (−1: the recorded program) and by index of the recorded
/// entry. The entries of a micro-batch are near each other, so its values are in a list from its
/// first entry on.
template <class T>
class InstanceValues {
 public:
  /// Comes before all other calls with the micro-batch, whose indices are `first` or more. Nothing
  /// if it has begun before.
  void begin(int64_t micro_batch, int64_t first) {
    const auto place = static_cast<size_t>(micro_batch + 1);
    if (place >= lists_.size()) lists_.resize(place + 1);
    if (lists_[place].first < 0) lists_[place].first = first;
  }
  /// T() if it was not set before.
  T& at(int64_t micro_batch, int64_t index) {
    List& list = lists_[static_cast<size_t>(micro_batch + 1)];
    const auto offset = static_cast<size_t>(index - list.first);
    if (offset >= list.values.size()) list.values.resize(offset + 1);
    return list.values[offset];
  }
  /// Null if nothing was set there or behind it.
  const T* find(int64_t micro_batch, int64_t index) const {
    const List& list = lists_[static_cast<size_t>(micro_batch + 1)];
    const int64_t offset = index - list.first;
    if (offset < 0 || offset >= static_cast<int64_t>(list.values.size())) return nullptr;
    return &list.values[static_cast<size_t>(offset)];
  }

 private:
  struct List {
    int64_t first = -1;  // −1: not begun
    std::vector<T> values;
  };
  std::vector<List> lists_;
};

}  // namespace viaduct
