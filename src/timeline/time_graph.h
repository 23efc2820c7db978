#pragma once
// Pieces of work with durations and dependencies: computes the earliest begin of each.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace viaduct {

class TimeGraph {
 public:
  using Node = int64_t;
  static constexpr Node kNone = -1;

  Node add(double seconds);
  void set_seconds(Node node, double seconds) { seconds_[index(node)] = seconds; }
  /// The node's duration is at least this.
  void at_least(Node node, double seconds);
  /// `after` begins when `before` is done; nothing if `before` is none.
  void order(Node before, Node after);

  /// Computes all times; false if some nodes wait for each other in a circle. Another run with only
  /// other durations costs less than the first one.
  bool run();
  /// After `run`.
  double begin(Node node) const { return begin_[index(node)]; }
  double end(Node node) const { return begin_[index(node)] + seconds_[index(node)]; }
  bool reached(Node node) const { return reached_[index(node)]; }

 private:
  static std::size_t index(Node node) { return static_cast<std::size_t>(node); }
  void prepare();

  std::vector<double> seconds_, begin_;
  std::vector<bool> reached_;
  struct Order {
    Node before, after;
  };
  std::vector<Order> orders_;
  // Of `prepare`: the successors of each node, and the nodes that are reached, each after those
  // that it waits for.
  std::vector<std::size_t> first_;
  std::vector<Node> successors_, sequence_;
};

}  // namespace viaduct
