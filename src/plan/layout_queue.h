#pragma once
// The layouts of a search that wait for a closer bound or for their prediction.

#include <cstdint>
#include <queue>

#include "plan/search_space.h"

namespace viaduct {

/// A layout that waits, the one with the lowest bound of time first.
struct Waiting {
  LowerBound bound;
  const Layout* layout;
  SearchSpace* space;
  BoundBasis basis;

  /// Whether the bound is the closest one, so that the layout waits for its prediction.
  bool refined() const { return basis == kClosestBasis; }
  /// What its next bound is computed from, unless it is refined.
  BoundBasis next_basis() const { return static_cast<BoundBasis>(static_cast<int>(basis) + 1); }
  bool operator<(const Waiting& other) const { return bound.seconds > other.bound.seconds; }
};

/// Two queues, so that the foremost refined layout can be taken out of turn.
class LayoutQueue {
 public:
  void push(const Waiting& waiting) { (waiting.refined() ? refined_ : rough_).push(waiting); }
  bool empty() const { return rough_.empty() && refined_.empty(); }
  int64_t size() const { return static_cast<int64_t>(rough_.size() + refined_.size()); }

  /// The layout with the lowest bound of all; there is one.
  const Waiting& front() const { return refined_is_first() ? refined_.top() : rough_.top(); }
  Waiting take_front() { return take(refined_is_first() ? refined_ : rough_); }

  /// The same of those that are refined; null: there is none.
  const Waiting* first_refined() const { return refined_.empty() ? nullptr : &refined_.top(); }
  Waiting take_refined() { return take(refined_); }

 private:
  using Queue = std::priority_queue<Waiting>;
  bool refined_is_first() const {
    return rough_.empty() || (!refined_.empty() && !(refined_.top() < rough_.top()));
  }
  static Waiting take(Queue& queue) {
    const Waiting first = queue.top();
    queue.pop();
    return first;
  }

  Queue rough_, refined_;
};

}  // namespace viaduct
