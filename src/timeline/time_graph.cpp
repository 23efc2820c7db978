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

void TimeGraph::prepare() {
  const size_t nodes = seconds_.size();
  // Successors in one array, those of node n from first_[n] on.
  first_.assign(nodes + 1, 0);
  std::vector<size_t> open(nodes, 0);
  for (const Order& order : orders_) ++first_[index(order.before) + 1], ++open[index(order.after)];
  for (size_t n = 0; n < nodes; ++n) first_[n + 1] += first_[n];
  successors_.resize(orders_.size());
  std::vector<size_t> next(first_.begin(), first_.end() - 1);
  for (const Order& order : orders_) successors_[next[index(order.before)]++] = order.after;
  reached_.assign(nodes, false);
  sequence_.clear();
  sequence_.reserve(nodes);
  std::vector<Node> ready;
  for (size_t n = 0; n < nodes; ++n)
    if (open[n] == 0) ready.push_back(static_cast<Node>(n));
  while (!ready.empty()) {
    const Node node = ready.back();
    ready.pop_back();
    reached_[index(node)] = true;
    sequence_.push_back(node);
    for (size_t i = first_[index(node)]; i < first_[index(node) + 1]; ++i)
      if (--open[index(successors_[i])] == 0) ready.push_back(successors_[i]);
  }
}

bool TimeGraph::run() {
  if (first_.size() != seconds_.size() + 1 || successors_.size() != orders_.size()) prepare();
  begin_.assign(seconds_.size(), 0);
  for (const Node node : sequence_) {
    const double done = end(node);
    for (size_t i = first_[index(node)]; i < first_[index(node) + 1]; ++i) {
      double& begin = begin_[index(successors_[i])];
      begin = std::max(begin, done);
    }
  }
  return sequence_.size() == seconds_.size();
}

}  // namespace viaduct
