#include "timeline/time_graph.h"

#include <algorithm>

namespace viaduct {

TimeGraph::Node TimeGraph::add(double seconds) {
  seconds_.push_back(seconds);
  return static_cast<Node>(seconds_.size()) - 1;
}

void TimeGraph::at_least(Node node, double seconds) {
  seconds_[index(node)] = std::max(seconds_[index(node)], seconds);
}

void TimeGraph::order(Node before, Node after) {
  if (before != kNone) orders_.push_back({before, after});
}

bool TimeGraph::run() {
  const size_t nodes = seconds_.size();
  // Successors in one array, those of node n from first[n] on.
  std::vector<size_t> first(nodes + 1, 0), open(nodes, 0);
  for (const Order& order : orders_) ++first[index(order.before) + 1], ++open[index(order.after)];
  for (size_t n = 0; n < nodes; ++n) first[n + 1] += first[n];
  std::vector<Node> successors(orders_.size());
  std::vector<size_t> next(first.begin(), first.end() - 1);
  for (const Order& order : orders_) successors[next[index(order.before)]++] = order.after;
  begin_.assign(nodes, 0);
  reached_.assign(nodes, false);
  std::vector<Node> ready;
  for (size_t n = 0; n < nodes; ++n)
    if (open[n] == 0) ready.push_back(static_cast<Node>(n));
  size_t done = 0;
  while (!ready.empty()) {
    const Node node = ready.back();
    ready.pop_back();
    reached_[index(node)] = true;
    ++done;
    for (size_t i = first[index(node)]; i < first[index(node) + 1]; ++i) {
      const size_t after = index(successors[i]);
      begin_[after] = std::max(begin_[after], end(node));
      if (--open[after] == 0) ready.push_back(successors[i]);
    }
  }
  return done == nodes;
}

}  // namespace viaduct
