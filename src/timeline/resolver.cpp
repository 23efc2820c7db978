#include "timeline/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/run_tasks.h"
#include "timeline/link_sharing.h"
#include "timeline/messages.h"
#include "timeline/rank_graph.h"

namespace viaduct {
namespace {

/// How much of `span` is covered by `busy`, which is sorted and without overlaps.
double covered(const TimeSpan& span, const std::vector<TimeSpan>& busy) {
  auto at = std::lower_bound(busy.begin(), busy.end(), span.begin,
                             [](const TimeSpan& b, double t) { return b.end <= t; });
  double sum = 0;
  for (; at != busy.end() && at->begin < span.end; ++at)
    sum += std::min(at->end, span.end) - std::max(at->begin, span.begin);
  return sum;
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
    for (int round = 0; round < 2 && (machine_.slowdown > 1 || machine_.link_use); ++round) {
      if (machine_.slowdown > 1) for_each_rank([&](size_t rank) { slow_down(rank); });
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
    std::size_t count = 0;
    for (const RankGraph& rank : graphs_) count += rank.operations.size();
    Operations operations(count);
    joined_.resize(ranks_.size());
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const RankOperation& own : graphs_[rank].operations) {
        const CollectiveRecord& c = ranks_[rank].record->collectives()[own.index];
        const TimeGraph::Node joined = operations.node_of(*graph_, ranks_[rank].rank, c);
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
      return fmt::format("rank {}: {} {} of {}{}", ranks_[rank].rank, c.operation, c.sequence,
                         c.group, c.peer >= 0 ? fmt::format(" with rank {}", c.peer) : "");
    }
    return {};
  }

  /// Times at which data of the rank moves, merged.
  std::vector<TimeSpan> communication(size_t rank) const {
    std::vector<TimeSpan> spans;
    const RankGraph& own = graphs_[rank];
    for (size_t i = 0; i < own.operations.size(); ++i) {
      const TimeSpan span{graph_->begin(joined_[rank][i]),
                          graph_->end(graph_->number(rank, own.operations[i].done))};
      if (span.seconds() > 0) spans.push_back(span);
    }
    std::sort(spans.begin(), spans.end(),
              [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
    std::vector<TimeSpan> merged;
    for (const TimeSpan& span : spans) {
      if (!merged.empty() && span.begin <= merged.back().end) {
        merged.back().end = std::max(merged.back().end, span.end);
      } else {
        merged.push_back(span);
      }
    }
    return merged;
  }

  TimeSpan span_of(size_t rank, WorkPart::Node node) const {
    const TimeGraph::Node number = graph_->number(rank, node);
    return {graph_->begin(number), graph_->end(number)};
  }

  /// Ops take longer for the part that runs beside communication.
  void slow_down(size_t rank) {
    const std::vector<TimeSpan> busy = communication(rank);
    const RankGraph& own = graphs_[rank];
    for (size_t i = 0; i < own.ops.size(); ++i) {
      if (own.ops[i] == WorkPart::kNone) continue;
      const TimeSpan span = span_of(rank, own.ops[i]);
      if (span.seconds() <= 0) continue;
      const double share = covered(span, busy) / span.seconds();
      graph_->set_seconds(graph_->number(rank, own.ops[i]),
                          own.alone[i] * (1 + (machine_.slowdown - 1) * share));
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
        std::vector<Transfer> transfers;
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
