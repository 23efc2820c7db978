#include "timeline/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/run_tasks.h"
#include "timeline/link_sharing.h"
#include "timeline/messages.h"
#include "timeline/rank_graph.h"

namespace viaduct {
namespace {

/// A time at which communication makes ops take `factor` as long.
struct Beside {
  TimeSpan span;
  double factor = 1;
};

/// Times of communication, sorted and without overlaps, for spans that mostly come in order.
class BesideInOrder {
 public:
  explicit BesideInOrder(std::vector<Beside> list) : list_(std::move(list)) {}

  /// By how many of its seconds `span` is longer because of them.
  double delay(const TimeSpan& span) {
    const auto over = [&](const Beside& b) { return b.span.end <= span.begin; };
    if (next_ > 0 && !over(list_[next_ - 1]))
      next_ = static_cast<size_t>(std::ranges::partition_point(list_, over) - list_.begin());
    while (next_ < list_.size() && over(list_[next_])) ++next_;
    double sum = 0;
    for (size_t at = next_; at < list_.size() && list_[at].span.begin < span.end; ++at) {
      const TimeSpan& other = list_[at].span;
      const double both = std::min(other.end, span.end) - std::max(other.begin, span.begin);
      sum += both * (list_[at].factor - 1);
    }
    return sum;
  }

 private:
  std::vector<Beside> list_;
  size_t next_ = 0;  // the first one that ends behind the begin of the last span
};

/// Sorted and without overlaps: where some of them overlap, the largest factor counts.
std::vector<Beside> flattened(const std::vector<Beside>& spans) {
  std::vector<std::pair<double, const Beside*>> edges;  // where spans begin and end
  for (const Beside& one : spans) {
    edges.emplace_back(one.span.begin, &one);
    edges.emplace_back(one.span.end, &one);
  }
  std::sort(edges.begin(), edges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Beside> flat;
  std::multiset<double> factors;  // of those that have begun
  double begin = 0;
  for (const auto& [at, one] : edges) {
    if (!factors.empty() && at > begin) {
      const double factor = *factors.rbegin();
      if (!flat.empty() && flat.back().span.end == begin && flat.back().factor == factor)
        flat.back().span.end = at;
      else
        flat.push_back({{begin, at}, factor});
    }
    begin = at;
    if (at == one->span.begin)
      factors.insert(one->factor);
    else
      factors.erase(factors.find(one->factor));
  }
  return flat;
}

/// The records of some ranks as one graph.
class Resolver {
 public:
  Resolver(const std::vector<RankRecord>& ranks, const MachineTimes& machine, ThreadPool* pool,
           const Deadline& deadline)
      : ranks_(ranks), machine_(machine), pool_(pool), deadline_(deadline), graphs_(ranks.size()) {
    for_each_rank([&](size_t rank) { graphs_[rank] = rank_graph(ranks_[rank], machine_); });
    std::vector<WorkPart> parts;
    for (RankGraph& rank : graphs_) parts.push_back(std::move(rank.part));
    graph_.emplace(std::move(parts));
    join_operations();
    if (machine_.link_use) {
      links_.resize(ranks_.size());
      for_each_rank([&](size_t rank) {
        for (const RankOperation& own : graphs_[rank].operations)
          links_[rank].push_back(machine_.link_use(ranks_[rank].record->collectives()[own.index]));
      });
    }
  }

  std::vector<RankTimes> times() {
    run();
    // Two rounds: what overlaps changes a little once it is slower.
    const bool slows = machine_.slowdown > 1 || machine_.multiprocessors > 0;
    for (int round = 0; round < 2 && (slows || machine_.link_use); ++round) {
      if (slows) for_each_rank([&](size_t rank) { slow_down(rank); });
      if (machine_.link_use) share_links();
      run();
    }
    std::vector<RankTimes> times(ranks_.size());
    for_each_rank([&](size_t rank) { times[rank] = times_of(rank); });
    return times;
  }

 private:
  template <class F>
  void for_each_rank(F&& f) {
    run_tasks(pool_, static_cast<int64_t>(ranks_.size()), [&](int64_t rank, int) {
      deadline_.check("virtual time");
      f(static_cast<size_t>(rank));
    });
  }

  void join_operations() {
    Operations operations(graphs_);
    joined_.resize(ranks_.size());
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const RankOperation& own : graphs_[rank].operations) {
        const TimeGraph::Node joined = operations.node_of(*graph_, rank, own);
        graph_->at_least(joined, own.seconds);
        graph_->join(rank, own.come, joined, own.done);
        joined_[rank].push_back(joined);
      }
    }
  }

  void run() {
    deadline_.check("virtual time");
    if (graph_->run(pool_)) return;
    std::string text;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::string stuck = stuck_of(rank);
      if (!stuck.empty()) text += (text.empty() ? "" : "; ") + stuck;
    }
    fail<CommError>("records do not match, these wait forever: {}", text);
  }

  /// A collective of the rank that has not happened; empty if there is none.
  std::string stuck_of(size_t rank) const {
    for (const RankOperation& own : graphs_[rank].operations) {
      if (graph_->reached(graph_->number(rank, own.done))) continue;
      const CollectiveRecord& c = ranks_[rank].record->collectives()[own.index];
      return fmt::format("rank {}: {} {} of {}{}", ranks_[rank].rank, choice_name(c.operation),
                         c.sequence, c.group,
                         c.peer >= 0 ? fmt::format(" with rank {}", c.peer) : "");
    }
    return {};
  }

  /// How much longer ops take beside this operation that leave it `spare` multiprocessors.
  double factor_beside(const CollectiveRecord& c, int spare) const {
    const int held = c.multiprocessors, all = machine_.multiprocessors;
    if (held == 0 || held >= all) return machine_.slowdown;
    return held <= spare ? 1 : static_cast<double>(all) / (all - held);
  }

  /// Times at which data of the rank moves.
  std::vector<Beside> communication(size_t rank, int spare) const {
    std::vector<Beside> spans;
    const RankGraph& own = graphs_[rank];
    for (size_t i = 0; i < own.operations.size(); ++i) {
      const TimeSpan span{graph_->begin(joined_[rank][i]),
                          graph_->end(graph_->number(rank, own.operations[i].done))};
      const CollectiveRecord& c = ranks_[rank].record->collectives()[own.operations[i].index];
      if (span.seconds() > 0) spans.push_back({span, factor_beside(c, spare)});
    }
    return flattened(spans);
  }

  TimeSpan span_of(size_t rank, WorkPart::Node node) const {
    const TimeGraph::Node number = graph_->number(rank, node);
    return {graph_->begin(number), graph_->end(number)};
  }

  /// Ops take longer for the part that runs beside communication.
  void slow_down(size_t rank) {
    std::map<int, BesideInOrder> communication_by_spare;
    const RankGraph& own = graphs_[rank];
    for (size_t i = 0; i < own.ops.size(); ++i) {
      if (own.ops[i] == WorkPart::kNone) continue;
      const TimeSpan span = span_of(rank, own.ops[i]);
      if (span.seconds() <= 0) continue;
      const int spare = ranks_[rank].record->ops()[i].spare_multiprocessors;
      auto at = communication_by_spare.find(spare);
      if (at == communication_by_spare.end())
        at = communication_by_spare.emplace(spare, communication(rank, spare)).first;
      graph_->set_seconds(graph_->number(rank, own.ops[i]),
                          own.alone[i] * (1 + at->second.delay(span) / span.seconds()));
    }
  }

  /// Operations take longer where a member has others on the same links at the same time.
  void share_links() {
    std::vector<std::vector<double>> delays(ranks_.size());
    for_each_rank([&](size_t rank) { delays[rank] = link_delays(rank); });
    for (const auto& operations : joined_)
      for (const TimeGraph::Node joined : operations) graph_->set_seconds(joined, 0);
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      for (size_t i = 0; i < joined_[rank].size(); ++i)
        graph_->at_least(joined_[rank][i], graphs_[rank].operations[i].seconds + delays[rank][i]);
  }

  /// By how much longer each operation of the rank takes because of its others.
  std::vector<double> link_delays(size_t rank) const {
    const std::vector<RankOperation>& operations = graphs_[rank].operations;
    std::vector<double> most(operations.size(), 0);
    for (double LinkUse::*const link : {&LinkUse::link, &LinkUse::network}) {
      for (const bool sends : {true, false}) {  // links are duplex
        std::vector<LinkTransfer> transfers;
        std::vector<size_t> whose;
        for (size_t i = 0; i < operations.size(); ++i) {
          const CollectiveRecord& c = ranks_[rank].record->collectives()[operations[i].index];
          if (is_message(c) && is_send(c) != sends) continue;
          const double seconds = links_[rank][i].*link;
          if (seconds <= 0) continue;
          transfers.push_back({graph_->begin(joined_[rank][i]), seconds});
          whose.push_back(i);
        }
        const std::vector<double> delays = sharing_delays(transfers);
        for (size_t n = 0; n < whose.size(); ++n)
          most[whose[n]] = std::max(most[whose[n]], delays[n]);
      }
    }
    return most;
  }

  RankTimes times_of(size_t rank) const {
    const RankGraph& own = graphs_[rank];
    const size_t collectives = ranks_[rank].record->collectives().size();
    RankTimes times;
    times.ops.resize(own.ops.size());
    times.collectives.resize(collectives);
    times.begun.resize(collectives);
    for (size_t i = 0; i < own.ops.size(); ++i) {
      if (own.ops[i] == WorkPart::kNone) continue;
      times.ops[i] = span_of(rank, own.ops[i]);
      times.end = std::max(times.end, times.ops[i].end);
    }
    for (size_t i = 0; i < own.operations.size(); ++i) {
      const RankOperation& operation = own.operations[i];
      const double done = span_of(rank, operation.done).end;
      times.collectives[operation.index] = {span_of(rank, operation.come).end, done};
      times.begun[operation.index] = graph_->begin(joined_[rank][i]);
      times.end = std::max(times.end, done);
    }
    if (own.host != WorkPart::kNone) times.host_end = span_of(rank, own.host).end;
    times.end = std::max(times.end, times.host_end);
    return times;
  }

  const std::vector<RankRecord>& ranks_;
  const MachineTimes& machine_;
  ThreadPool* pool_;
  Deadline deadline_;
  std::vector<RankGraph> graphs_;
  std::optional<TimeGraph> graph_;
  std::vector<std::vector<TimeGraph::Node>> joined_;  // by rank: of its operations
  std::vector<std::vector<LinkUse>> links_;           // the same, where they share links
};

}  // namespace

std::vector<RankTimes> resolve_times(const std::vector<RankRecord>& ranks,
                                     const MachineTimes& machine, ThreadPool* pool,
                                     const Deadline& deadline) {
  return Resolver(ranks, machine, pool, deadline).times();
}

}  // namespace viaduct
