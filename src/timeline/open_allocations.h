#pragma once
// Which entry of a record an allocation has that was not released yet.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace viaduct {

/// Indices of entries by the number of the allocation. Devices count allocations up, so that a list
/// from the oldest one that is open finds an entry without a search. Its length grows with the
/// allocations since then, until `set_aside`.
class OpenAllocations {
 public:
  void add(int64_t id, std::size_t index) {
    if (list_.empty()) first_ = id;
    if (id < first_ + static_cast<int64_t>(list_.size())) {
      older_[id] = index;
      return;
    }
    list_.resize(static_cast<std::size_t>(id - first_), kNone);
    list_.push_back(index);
  }
  /// The index of an allocation that is released; none if it was not added.
  std::optional<std::size_t> take(int64_t id) {
    const int64_t place = id - first_;
    if (place < 0 || place >= static_cast<int64_t>(list_.size())) {
      const auto found = older_.find(id);
      if (found == older_.end()) return std::nullopt;
      const std::size_t index = found->second;
      older_.erase(found);
      return index;
    }
    const std::size_t index = list_[static_cast<std::size_t>(place)];
    if (index == kNone) return std::nullopt;
    list_[static_cast<std::size_t>(place)] = kNone;
    for (; !list_.empty() && list_.front() == kNone; ++first_) list_.pop_front();
    return index;
  }
  /// Replaces each index of an open allocation by what `f` returns for it, in the order of their
  /// numbers, and shortens the list to those that are added from now on.
  template <class F>
  void set_aside(F&& f) {
    for (auto& [id, index] : older_) index = f(index);
    for (std::size_t place = 0; place < list_.size(); ++place)
      if (list_[place] != kNone) older_[first_ + static_cast<int64_t>(place)] = f(list_[place]);
    list_.clear();
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  int64_t first_ = 0;                     // number of the allocation that the list begins with
  std::deque<std::size_t> list_;          // kNone: released
  std::map<int64_t, std::size_t> older_;  // what was set aside, or came late
};

}  // namespace viaduct
