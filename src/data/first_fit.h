#pragma once
// First fit: each item goes into the first row that has room for it, found in O(log rows).

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace viaduct {

class FirstFit {
 public:
  /// Rows with `room` places each, of which at most `most_rows` are opened.
  FirstFit(int64_t most_rows, int32_t room)
      : leaves_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(most_rows)))),
        room_(static_cast<size_t>(2 * leaves_), room) {}

  /// The row of an item with `size` places, at most a whole row.
  int64_t place(int32_t size) {
    int64_t node = 1;
    while (node < leaves_) node = 2 * node + (at(2 * node) < size ? 1 : 0);
    at(node) -= size;
    const int64_t row = node - leaves_;
    opened_ = std::max(opened_, row + 1);
    for (node /= 2; node > 0; node /= 2) {
      const int32_t most = std::max(at(2 * node), at(2 * node + 1));
      if (at(node) == most) break;
      at(node) = most;
    }
    return row;
  }
  /// Rows that have an item.
  int64_t rows() const { return opened_; }

 private:
  int32_t& at(int64_t node) { return room_[static_cast<size_t>(node)]; }

  int64_t leaves_, opened_ = 0;
  std::vector<int32_t> room_;  // a tree: the most room among the rows below each node
};

}  // namespace viaduct
