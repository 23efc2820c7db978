#include "timeline/time_graph.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/run_tasks.h"

namespace viaduct {

void WorkPart::reserve(std::size_t nodes, std::size_t orders) {
  seconds_.reserve(nodes);
  orders_.reserve(orders);
}

WorkPart::Node WorkPart::add(double seconds) {
  seconds_.push_back(seconds);
  return static_cast<Node>(seconds_.size()) - 1;
}

TimeGraph::TimeGraph(std::vector<WorkPart> parts) : parts_(std::move(parts)) {
  for (const WorkPart& part : parts_) {
    offsets_.push_back(seconds_.size());
    seconds_.insert(seconds_.end(), part.seconds_.begin(), part.seconds_.end());
  }
  offsets_.push_back(seconds_.size());
}

TimeGraph::Node TimeGraph::add_shared() {
  seconds_.push_back(0);
  VIADUCT_CHECK(CommError, seconds_.size() <= std::numeric_limits<Node>::max(),
                "virtual time: {} pieces of work, expected at most {}", seconds_.size(),
                std::numeric_limits<Node>::max());
  return static_cast<Node>(seconds_.size()) - 1;
}

void TimeGraph::at_least(Node shared, double seconds) {
  seconds_[index(shared)] = std::max(seconds_[index(shared)], seconds);
}

void TimeGraph::join(std::size_t part, Node before, Node shared, Node after) {
  parts_[part].joins_.push_back({before, shared});
  releases_.push_back({shared, number(part, after)});
}

void TimeGraph::list_successors(ThreadPool* pool) {
  first_.resize(seconds_.size() + 1);
  open_.assign(seconds_.size(), 0);
  std::vector<std::size_t> first_orders{0};
  for (const WorkPart& part : parts_)
    first_orders.push_back(first_orders.back() + part.orders_.size() + part.joins_.size());
  successors_.resize(first_orders.back() + releases_.size());
  first_.back() = successors_.size();
  // Parts have different nodes: each thread writes what no other one does.
  run_tasks(pool, static_cast<int64_t>(parts_.size()), [&](int64_t index, int) {
    const auto part = static_cast<std::size_t>(index);
    list_successors_of_part(part, first_orders[part]);
  });
  list_successors_of_shared(first_orders.back());
}

void TimeGraph::list_successors_of_part(std::size_t part, std::size_t first_order) {
  const WorkPart& work = parts_[part];
  const std::size_t offset = offsets_[part], nodes = work.seconds_.size();
  std::size_t* first = first_.data() + offset;
  std::fill_n(first, nodes, 0);
  for (const auto* list : {&work.orders_, &work.joins_})
    for (const WorkPart::Order& order : *list) ++first[index(order.before)];
  std::size_t end = first_order;
  for (std::size_t n = 0; n < nodes; ++n) first[n] = end += first[n];
  // Filled from behind, each list's begin moves to where it belongs.
  for (const WorkPart::Order& order : work.joins_)
    successors_[--first[index(order.before)]] = order.after;
  for (const WorkPart::Order& order : work.orders_) {
    successors_[--first[index(order.before)]] = number(part, order.after);
    ++open_[offset + index(order.after)];
  }
}

void TimeGraph::list_successors_of_shared(std::size_t first_order) {
  const std::size_t offset = offsets_.back();
  std::fill(first_.begin() + static_cast<std::ptrdiff_t>(offset), first_.end() - 1, 0);
  for (const WorkPart::Order& order : releases_) ++first_[index(order.before)];
  std::size_t end = first_order;
  for (std::size_t n = offset; n < seconds_.size(); ++n) first_[n] = end += first_[n];
  for (const WorkPart::Order& order : releases_) {
    successors_[--first_[index(order.before)]] = order.after;
    ++open_[index(order.after)];
  }
  for (const WorkPart& part : parts_)
    for (const WorkPart::Order& order : part.joins_) ++open_[index(order.after)];
}

void TimeGraph::put_in_sequence() {
  sequence_.clear();
  sequence_.reserve(seconds_.size());
  std::vector<Node> ready;
  for (std::size_t n = 0; n < seconds_.size(); ++n)
    if (open_[n] == 0) ready.push_back(static_cast<Node>(n));
  while (!ready.empty()) {
    const Node node = ready.back();
    ready.pop_back();
    sequence_.push_back(node);
    for (std::size_t i = first_[index(node)]; i < first_[index(node) + 1]; ++i)
      if (--open_[index(successors_[i])] == 0) ready.push_back(successors_[i]);
  }
}

bool TimeGraph::run(ThreadPool* pool) {
  if (first_.empty()) {
    list_successors(pool);
    put_in_sequence();
  }
  begin_.assign(seconds_.size(), 0);
  for (const Node node : sequence_) {
    const double done = end(node);
    for (std::size_t i = first_[index(node)]; i < first_[index(node) + 1]; ++i) {
      double& begin = begin_[index(successors_[i])];
      begin = std::max(begin, done);
    }
  }
  return sequence_.size() == seconds_.size();
}

}  // namespace viaduct
