#include "timeline/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "timeline/time_graph.h"

namespace viaduct {
namespace {

using Node = TimeGraph::Node;

bool is_send(const CollectiveRecord& c) {
  return c.operation == "send";
}
bool is_message(const CollectiveRecord& c) {
  return is_send(c) || c.operation == "receive";
}

/// The nodes of operations, each shared by all of its members.
class Operations {
 public:
  /// Which operation it is, for all of its members: of messages both ends agree.
  struct Key {
    int64_t group = 0, flow = -1;  // numbers of names
    int from = -1, to = -1;        // of a message
    int64_t sequence = 0;
    bool operator==(const Key&) const = default;
  };

  int64_t number_of(const std::string& name) {
    return numbers_.try_emplace(name, static_cast<int64_t>(numbers_.size())).first->second;
  }
  /// Nothing at the first call for a key.
  Node& node_of(const Key& key) { return nodes_.try_emplace(key, TimeGraph::kNone).first->second; }

 private:
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t sum = 0;
      for (const int64_t part :
           {key.group, key.flow, int64_t{key.from}, int64_t{key.to}, key.sequence})
        sum = (sum ^ static_cast<uint64_t>(part)) * 0x9E3779B97F4A7C15U + (sum >> 29);
      return static_cast<size_t>(sum ^ (sum >> 32));
    }
  };
  std::map<std::string, int64_t> numbers_;
  std::unordered_map<Key, Node, Hash> nodes_;
};

/// One entry of the host's program.
struct HostEvent {
  enum class Kind { op, collective, completion, read } kind;
  int64_t at;
  size_t index;
};

/// Builds the graph of one rank: nodes of its host, of its streams, and of its collectives, the
/// last joined with those of other ranks by `operations`.
class RankGraph {
 public:
  RankGraph(TimeGraph& graph, const RankRecord& rank, const MachineTimes& machine,
            Operations& operations)
      : graph_(graph), rank_(rank), machine_(machine), operations_(operations) {
    const StepRecord& record = *rank.record;
    op_nodes_.assign(record.ops().size(), TimeGraph::kNone);
    alone_.assign(record.ops().size(), 0);
    come_.assign(record.collectives().size(), TimeGraph::kNone);
    joined_ = done_ = come_;
    // Only devices without side streams have collectives in the stream of compute.
    host_computes_ =
        std::any_of(record.collectives().begin(), record.collectives().end(),
                    [](const CollectiveRecord& c) { return c.ranks > 1 && c.stream == 0; });
    for (const StreamEdgeRecord& edge : record.edges()) waits_[edge.to_stream].push_back(edge);
    for (auto& [stream, edges] : waits_) {
      std::stable_sort(edges.begin(), edges.end(),
                       [](const auto& a, const auto& b) { return a.to_position < b.to_position; });
    }
    for (const HostEvent& event : host_program()) add(event);
  }

  /// An op takes this many times the duration that it has alone.
  void slow_down(size_t op, double factor) {
    if (op_nodes_[op] != TimeGraph::kNone) graph_.set_seconds(op_nodes_[op], alone_[op] * factor);
  }

  RankTimes times() const {
    RankTimes times;
    times.ops.resize(op_nodes_.size());
    times.collectives.resize(come_.size());
    times.begun.resize(come_.size());
    for (size_t i = 0; i < op_nodes_.size(); ++i) {
      if (op_nodes_[i] == TimeGraph::kNone) continue;
      times.ops[i] = {graph_.begin(op_nodes_[i]), graph_.end(op_nodes_[i])};
      times.end = std::max(times.end, times.ops[i].end);
    }
    for (size_t i = 0; i < come_.size(); ++i) {
      if (come_[i] == TimeGraph::kNone) continue;
      times.collectives[i] = {graph_.end(come_[i]), graph_.end(done_[i])};
      times.begun[i] = graph_.begin(joined_[i]);
      times.end = std::max(times.end, times.collectives[i].end);
    }
    if (host_ != TimeGraph::kNone) times.host_end = graph_.end(host_);
    times.end = std::max(times.end, times.host_end);
    return times;
  }

  /// A collective of this rank that has not happened; empty if there is none.
  std::string stuck() const {
    for (size_t i = 0; i < come_.size(); ++i) {
      if (come_[i] == TimeGraph::kNone || graph_.reached(done_[i])) continue;
      return operation_text(rank_.record->collectives()[i]);
    }
    return {};
  }

 private:
  std::string operation_text(const CollectiveRecord& c) const {
    return fmt::format("rank {}: {} {} of {}{}", rank_.rank, c.operation, c.sequence, c.group,
                       c.peer >= 0 ? fmt::format(" with rank {}", c.peer) : "");
  }

  Operations::Key key_of(const CollectiveRecord& c) {
    const auto [group, is_new] = groups_.try_emplace({c.members.get(), c.group}, 0);
    if (is_new)
      group->second =
          operations_.number_of(c.group + "\n" + (c.members ? c.members->text() : std::string()));
    if (!is_message(c)) return {.group = group->second, .sequence = c.sequence};
    const bool sends = is_send(c);
    return {.group = group->second,
            .flow = operations_.number_of(c.flow),
            .from = sends ? rank_.rank : c.peer,
            .to = sends ? c.peer : rank_.rank,
            .sequence = c.sequence};
  }

  bool inside(int64_t at) const { return at >= rank_.begin && at < rank_.end; }

  std::vector<HostEvent> host_program() const {
    using Kind = HostEvent::Kind;
    const StepRecord& record = *rank_.record;
    std::vector<HostEvent> events;
    for (size_t i = 0; i < record.ops().size(); ++i)
      if (inside(record.ops()[i].at)) events.push_back({Kind::op, record.ops()[i].at, i});
    for (size_t i = 0; i < record.collectives().size(); ++i) {
      const CollectiveRecord& c = record.collectives()[i];
      if (!inside(c.launched_at)) continue;
      events.push_back({Kind::collective, c.launched_at, i});
      if (c.blocks_host && inside(c.completed_at))
        events.push_back({Kind::completion, c.completed_at, i});
    }
    for (size_t i = 0; i < record.host_reads().size(); ++i)
      if (inside(record.host_reads()[i].at))
        events.push_back({Kind::read, record.host_reads()[i].at, i});
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.at < b.at; });
    return events;
  }

  void add(const HostEvent& event) {
    const StepRecord& record = *rank_.record;
    switch (event.kind) {
      case HostEvent::Kind::op:
        return add_op(record.ops()[event.index], event.index);
      case HostEvent::Kind::collective:
        return add_collective(record.collectives()[event.index], event.index);
      case HostEvent::Kind::completion:
        return host_step(machine_.host_wait, done_[event.index]);
      case HostEvent::Kind::read:
        return host_step(machine_.host_wait,
                         host_computes_
                             ? TimeGraph::kNone
                             : last_up_to(0, record.host_reads()[event.index].stream_position));
    }
  }

  /// The host's next piece of work, after its earlier work and after `after`.
  void host_step(double seconds, Node after = TimeGraph::kNone) {
    const Node node = graph_.add(seconds);
    graph_.order(host_, node);
    graph_.order(after, node);
    host_ = node;
  }

  void add_op(const OpEntryRecord& op, size_t index) {
    host_step(machine_.launch * op.host_launches());
    alone_[index] = machine_.op(op);
    const Node node = graph_.add(alone_[index]);
    op_nodes_[index] = node;
    if (host_computes_) {
      graph_.order(host_, node);
      host_ = node;
      return;
    }
    enqueue(op.stream, op.stream_position, node);
    placed(op.stream, op.stream_position, node);
  }

  void add_collective(const CollectiveRecord& c, size_t index) {
    host_step(machine_.launch);
    const Node come = graph_.add(0), done = graph_.add(0);
    Node& joined = operations_.node_of(key_of(c));
    if (joined == TimeGraph::kNone) joined = graph_.add(0);
    graph_.at_least(joined, machine_.collective(c));
    graph_.order(come, joined);
    graph_.order(joined, done);
    come_[index] = come, joined_[index] = joined, done_[index] = done;
    if (host_computes_) {
      graph_.order(host_, come);
      // Messages that are posted together do not wait for each other.
      if (c.message_group < 0)
        graph_.order(
            std::exchange(queue_ends_.try_emplace(c.queue, TimeGraph::kNone).first->second, done),
            come);
      return;
    }
    enqueue(c.stream, c.stream_position, come);
    placed(c.stream, c.stream_position, done);
  }

  /// `node` begins after earlier work of the stream, after the host's launch, and after everything
  /// that the stream waits for.
  void enqueue(int stream, int64_t position, Node node) {
    graph_.order(host_, node);
    StreamEnd& end = streams_[stream];
    if (position > end.position) end = {position, std::move(end.at), {}};
    for (const Node work : end.before) graph_.order(work, node);
    auto& edges = waits_[stream];
    auto& next = next_wait_[stream];
    for (; next < edges.size() && edges[next].to_position <= position; ++next)
      graph_.order(last_up_to(edges[next].from_stream, edges[next].from_position), node);
  }

  /// The enqueued work is complete with `node`.
  void placed(int stream, int64_t position, Node node) {
    streams_[stream].at.push_back(node);
    history_[stream].emplace_back(position, node);
  }

  /// The last work of a stream up to a position; none if it is outside of the part.
  Node last_up_to(int stream, int64_t position) {
    const auto& history = history_[stream];
    const auto beyond =
        std::upper_bound(history.begin(), history.end(), position,
                         [](int64_t limit, const auto& entry) { return limit < entry.first; });
    if (beyond == history.begin()) return TimeGraph::kNone;
    const int64_t found = std::prev(beyond)->first;
    if (std::prev(beyond) == history.begin() || std::prev(beyond, 2)->first != found)
      return std::prev(beyond)->second;
    const Node all = graph_.add(0);  // messages posted together
    for (auto entry = beyond; entry != history.begin() && std::prev(entry)->first == found; --entry)
      graph_.order(std::prev(entry)->second, all);
    return all;
  }

  TimeGraph& graph_;
  RankRecord rank_;
  const MachineTimes& machine_;
  Operations& operations_;
  std::map<std::pair<const RankRule*, std::string_view>, int64_t> groups_;  // their numbers
  Node host_ = TimeGraph::kNone;
  /// A device without side streams: the host runs ops itself, and communication proceeds in
  /// parallel until the host waits for it.
  bool host_computes_ = false;
  std::map<std::string, Node> queue_ends_;  // then, the last operation of each queue
  std::vector<Node> op_nodes_, come_, joined_, done_;
  std::vector<double> alone_;  // seconds of ops
  std::map<int, std::vector<StreamEdgeRecord>> waits_;
  std::map<int, size_t> next_wait_;
  /// The last work of a stream, and what it waits for. Messages that are posted together have the
  /// same position: none waits for another.
  struct StreamEnd {
    int64_t position = -1;
    std::vector<Node> before, at;
  };
  std::map<int, StreamEnd> streams_;
  std::map<int, std::vector<std::pair<int64_t, Node>>> history_;
};

/// How much of `span` is covered by `busy`, which is sorted and without overlaps.
double covered(const TimeSpan& span, const std::vector<TimeSpan>& busy) {
  auto at = std::lower_bound(busy.begin(), busy.end(), span.begin,
                             [](const TimeSpan& b, double t) { return b.end <= t; });
  double sum = 0;
  for (; at != busy.end() && at->begin < span.end; ++at)
    sum += std::min(at->end, span.end) - std::max(at->begin, span.begin);
  return sum;
}

/// Times at which data moves, merged.
std::vector<TimeSpan> communication(const RankTimes& times) {
  std::vector<TimeSpan> spans;
  for (size_t i = 0; i < times.collectives.size(); ++i) {
    const TimeSpan span{times.begun[i], times.collectives[i].end};
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

void run(TimeGraph& graph, const std::vector<RankGraph>& ranks) {
  if (graph.run()) return;
  std::string text;
  for (const RankGraph& rank : ranks) {
    const std::string stuck = rank.stuck();
    if (!stuck.empty()) text += (text.empty() ? "" : "; ") + stuck;
  }
  fail<CommError>("records do not match, these wait forever: {}", text);
}

}  // namespace

std::vector<RankTimes> resolve_times(const std::vector<RankRecord>& ranks,
                                     const MachineTimes& machine) {
  TimeGraph graph;
  Operations operations;
  std::vector<RankGraph> graphs;
  graphs.reserve(ranks.size());
  for (const RankRecord& rank : ranks) graphs.emplace_back(graph, rank, machine, operations);
  run(graph, graphs);
  // Two rounds: the set of ops that overlap with communication changes a little once they are
  // slower.
  for (int round = 0; round < 2 && machine.slowdown > 1; ++round) {
    std::vector<RankTimes> times;
    for (const RankGraph& rank : graphs) times.push_back(rank.times());
    for (size_t r = 0; r < ranks.size(); ++r) {
      const std::vector<TimeSpan> busy = communication(times[r]);
      for (size_t i = 0; i < times[r].ops.size(); ++i) {
        const TimeSpan& span = times[r].ops[i];
        if (span.seconds() <= 0) continue;
        const double share = covered(span, busy) / span.seconds();
        graphs[r].slow_down(i, 1 + (machine.slowdown - 1) * share);
      }
    }
    run(graph, graphs);
  }
  std::vector<RankTimes> times;
  for (const RankGraph& rank : graphs) times.push_back(rank.times());
  return times;
}

}  // namespace viaduct
