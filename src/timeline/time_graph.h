#pragma once
// Pieces of work with durations and dependencies: computes the earliest begin of each. The graph
// has parts, one a rank, which different threads make, and pieces of work that parts share. Times
// are maxima over what a piece waits for, so that they do not depend on the order of the
// computation.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace viaduct {

/// The work of one rank. Its nodes have numbers of their own, from 0.
class WorkPart {
 public:
  using Node = int32_t;
  static constexpr Node kNone = -1;

  void reserve(std::size_t nodes, std::size_t orders);
  Node add(double seconds);
  /// `after` begins when `before` is done; nothing if `before` is none.
  void order(Node before, Node after) {
    if (before != kNone) orders_.push_back({before, after});
  }

 private:
  friend class TimeGraph;
  struct Order {
    Node before, after;
  };
  std::vector<double> seconds_;
  std::vector<Order> orders_;
  std::vector<Order> joins_;  // own nodes, and the shared ones that wait for them
};

/// The graph of all parts, which it takes over. Nodes of parts are numbered anew: `number`.
class TimeGraph {
 public:
  using Node = WorkPart::Node;
  static constexpr Node kNone = WorkPart::kNone;

  explicit TimeGraph(std::vector<WorkPart> parts);
  Node number(std::size_t part, Node node) const {
    return node == kNone ? kNone : static_cast<Node>(offsets_[part]) + node;
  }

  /// A piece of work that parts share.
  Node add_shared();
  /// The duration of shared work is at least this.
  void at_least(Node shared, double seconds);
  /// Shared work begins when `before`, a node of the part by its own number, is done, and with it
  /// the part's `after` may begin.
  void join(std::size_t part, Node before, Node shared, Node after);

  void set_seconds(Node node, double seconds) { seconds_[index(node)] = seconds; }
  /// Computes all times, on the threads of `pool` where there is one; false if some nodes wait for
  /// each other in a circle. No work may be added afterwards. Another run with only other durations
  /// costs less than the first one.
  bool run(ThreadPool* pool = nullptr);
  /// After `run`.
  double begin(Node node) const { return begin_[index(node)]; }
  double end(Node node) const { return begin_[index(node)] + seconds_[index(node)]; }
  bool reached(Node node) const { return open_[index(node)] == 0; }

 private:
  static std::size_t index(Node node) { return static_cast<std::size_t>(node); }
  void list_successors(ThreadPool* pool);
  void list_successors_of_part(std::size_t part, std::size_t first_order);
  void list_successors_of_shared(std::size_t first_order);
  void put_in_sequence();

  std::vector<WorkPart> parts_;
  std::vector<std::size_t> offsets_;       // of each part's nodes, and of the shared ones
  std::vector<WorkPart::Order> releases_;  // shared nodes, and those of parts that wait for them
  std::vector<double> seconds_, begin_;
  // Of the first run: the successors of each node, those of node n from first_[n] on; how many
  // nodes each waits for that have no place in the sequence; and the sequence, in which each comes
  // after those that it waits for.
  std::vector<std::size_t> first_;
  std::vector<int32_t> open_;
  std::vector<Node> successors_, sequence_;
};

}  // namespace viaduct
