#include "timeline/rank_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "timeline/messages.h"

namespace viaduct {
namespace {

using Node = WorkPart::Node;

/// What a stream has been given, and what it waits for.
struct StreamWork {
  int id = 0;
  /// The last work, and what it waits for. Messages that are posted together have the same
  /// position: none waits for another.
  int64_t position = -1;
  std::vector<Node> before = {}, at = {};
  std::vector<StreamEdgeRecord> waits = {};  // by the position that waits
  std::size_t next_wait = 0;
  std::vector<std::pair<int64_t, Node>> history = {};  // all work, by position

  void move_to(int64_t next) {
    position = next;
    before.swap(at);
    at.clear();
  }
  /// The next wait of work up to a position; null if there is none.
  const StreamEdgeRecord* wait_up_to(int64_t limit) {
    const bool any = next_wait < waits.size() && waits[next_wait].to_position <= limit;
    return any ? &waits[next_wait++] : nullptr;
  }
};

/// Goes through the host's program in the order of the record.
class Builder {
 public:
  Builder(const RankRecord& rank, const MachineTimes& machine)
      : rank_(rank), machine_(machine), record_(*rank.record) {
    graph_.ops.assign(record_.ops().size(), WorkPart::kNone);
    graph_.alone.assign(record_.ops().size(), 0);
    // A launch and the op itself; each after the one before, the op also after its launch and
    // sometimes after other streams.
    const std::size_t pieces = record_.ops().size() + 2 * record_.collectives().size();
    graph_.part.reserve(2 * pieces, 4 * pieces);
    // Only devices without side streams have collectives in the stream of compute.
    host_computes_ =
        std::any_of(record_.collectives().begin(), record_.collectives().end(),
                    [](const CollectiveRecord& c) { return c.ranks > 1 && c.stream == 0; });
    for (const StreamEdgeRecord& edge : record_.edges())
      streams_[place_of(edge.to_stream)].waits.push_back(edge);
    for (StreamWork& stream : streams_) {
      std::stable_sort(stream.waits.begin(), stream.waits.end(),
                       [](const auto& a, const auto& b) { return a.to_position < b.to_position; });
    }
  }

  RankGraph build() && {
    // Entries of each kind are in the order of the host's program, except completions.
    std::vector<std::pair<int64_t, std::size_t>> completions;  // position, operation
    std::size_t op = first_inside(record_.ops(), [](const auto& o) { return o.at; });
    std::size_t collective =
        first_inside(record_.collectives(), [](const auto& c) { return c.launched_at; });
    std::size_t read = first_inside(record_.host_reads(), [](const auto& r) { return r.at; });
    const int64_t end = rank_.end;
    for (std::size_t i = collective; i < record_.collectives().size(); ++i) {
      const CollectiveRecord& c = record_.collectives()[i];
      if (c.launched_at >= end) break;
      if (c.blocks_host && c.completed_at >= rank_.begin && c.completed_at < end)
        completions.emplace_back(c.completed_at, i - collective);
    }
    std::sort(completions.begin(), completions.end());
    std::size_t completion = 0;
    while (true) {
      const int64_t at_op = op < record_.ops().size() ? record_.ops()[op].at : end;
      const int64_t at_collective = collective < record_.collectives().size()
                                        ? record_.collectives()[collective].launched_at
                                        : end;
      const int64_t at_completion =
          completion < completions.size() ? completions[completion].first : end;
      const int64_t at_read =
          read < record_.host_reads().size() ? record_.host_reads()[read].at : end;
      const int64_t next = std::min({at_op, at_collective, at_completion, at_read});
      if (next >= end) break;
      if (next == at_op) {
        add_op(op++);
      } else if (next == at_collective) {
        add_collective(collective++);
      } else if (next == at_completion) {
        host_step(machine_.host_wait, graph_.operations[completions[completion++].second].done);
      } else {
        const int64_t position = record_.host_reads()[read++].stream_position;
        host_step(machine_.host_wait, host_computes_ ? WorkPart::kNone : last_up_to(0, position));
      }
    }
    return std::move(graph_);
  }

 private:
  /// The index of the first entry of the part.
  template <class Entry, class At>
  std::size_t first_inside(const std::vector<Entry>& entries, At&& at) const {
    return static_cast<std::size_t>(
        std::partition_point(entries.begin(), entries.end(),
                             [&](const Entry& entry) { return at(entry) < rank_.begin; }) -
        entries.begin());
  }

  /// The host's next piece of work, after its earlier work and after `after`.
  void host_step(double seconds, Node after = WorkPart::kNone) {
    const Node node = graph_.part.add(seconds);
    graph_.part.order(graph_.host, node);
    graph_.part.order(after, node);
    graph_.host = node;
  }

  void add_op(std::size_t index) {
    const OpEntryRecord& op = record_.ops()[index];
    host_step(machine_.launch * op.host_launches() + (machine_.host ? machine_.host(op) : 0));
    const int spare = op.spare_multiprocessors, all = machine_.multiprocessors;
    const double alone =
        machine_.op(op) * (spare < all ? static_cast<double>(all) / (all - spare) : 1);
    const Node node = graph_.part.add(alone);
    graph_.alone[index] = alone, graph_.ops[index] = node;
    if (host_computes_) {
      graph_.part.order(graph_.host, node);
      graph_.host = node;
      return;
    }
    enqueue(op.stream, op.stream_position, node);
    placed(op.stream, op.stream_position, node);
  }

  void add_collective(std::size_t index) {
    const CollectiveRecord& c = record_.collectives()[index];
    host_step(machine_.launch);
    const Node come = graph_.part.add(0), done = graph_.part.add(0);
    graph_.operations.push_back(
        {index, channel_of(c), c.sequence, come, done, machine_.collective(c)});
    if (host_computes_) {
      graph_.part.order(graph_.host, come);
      // Messages that are posted together do not wait for each other.
      if (c.message_group < 0)
        graph_.part.order(
            std::exchange(queue_ends_.try_emplace(c.queue, WorkPart::kNone).first->second, done),
            come);
      return;
    }
    enqueue(c.stream, c.stream_position, come);
    placed(c.stream, c.stream_position, done);
  }

  /// The index of the channel that an operation belongs to; there are few.
  std::size_t channel_of(const CollectiveRecord& c) {
    const bool message = is_message(c), sends = is_send(c);
    const int from = !message ? -1 : sends ? rank_.rank : c.peer;
    const int to = !message ? -1 : sends ? c.peer : rank_.rank;
    std::vector<RankChannel>& all = graph_.channels;
    const auto found = std::find_if(all.begin(), all.end(), [&](const RankChannel& one) {
      return one.members == c.members.get() && one.from == from && one.to == to &&
             one.flow == c.flow && one.group == c.group;
    });
    if (found == all.end()) {
      all.push_back({c.members.get(), c.group, c.flow, from, to, c.sequence, c.sequence});
      return all.size() - 1;
    }
    found->first = std::min(found->first, c.sequence);
    found->last = std::max(found->last, c.sequence);
    return static_cast<std::size_t>(found - all.begin());
  }

  /// The index of a stream's work; there are few streams.
  std::size_t place_of(int id) {
    std::size_t place = 0;
    while (place < streams_.size() && streams_[place].id != id) ++place;
    if (place == streams_.size()) streams_.push_back({id});
    return place;
  }

  /// `node` begins after earlier work of the stream, after the host's launch, and after everything
  /// that the stream waits for.
  void enqueue(int id, int64_t position, Node node) {
    graph_.part.order(graph_.host, node);
    const std::size_t place = place_of(id);
    StreamWork& stream = streams_[place];
    if (position > stream.position) stream.move_to(position);
    for (const Node work : stream.before) graph_.part.order(work, node);
    while (const StreamEdgeRecord* edge = streams_[place].wait_up_to(position))
      graph_.part.order(last_up_to(edge->from_stream, edge->from_position), node);
  }

  /// The enqueued work is complete with `node`.
  void placed(int id, int64_t position, Node node) {
    StreamWork& stream = streams_[place_of(id)];
    stream.at.push_back(node);
    stream.history.emplace_back(position, node);
  }

  /// The last work of a stream up to a position; none if it is outside of the part.
  Node last_up_to(int id, int64_t position) {
    const auto& history = streams_[place_of(id)].history;
    const auto beyond =
        std::upper_bound(history.begin(), history.end(), position,
                         [](int64_t limit, const auto& entry) { return limit < entry.first; });
    if (beyond == history.begin()) return WorkPart::kNone;
    const int64_t found = std::prev(beyond)->first;
    if (std::prev(beyond) == history.begin() || std::prev(beyond, 2)->first != found)
      return std::prev(beyond)->second;
    const Node all = graph_.part.add(0);  // messages posted together
    for (auto entry = beyond; entry != history.begin() && std::prev(entry)->first == found; --entry)
      graph_.part.order(std::prev(entry)->second, all);
    return all;
  }

  const RankRecord& rank_;
  const MachineTimes& machine_;
  const StepRecord& record_;
  RankGraph graph_;
  /// A device without side streams: the host runs ops itself, and communication proceeds in
  /// parallel until the host waits for it.
  bool host_computes_ = false;
  std::map<std::string, Node> queue_ends_;  // then, the last operation of each queue
  std::vector<StreamWork> streams_;
};

}  // namespace

RankGraph rank_graph(const RankRecord& rank, const MachineTimes& machine) {
  return Builder(rank, machine).build();
}

Operations::Operations(const std::vector<RankGraph>& ranks) {
  std::map<std::string, std::size_t> known;  // channels by what all members have in common
  for (const RankGraph& rank : ranks) {
    std::vector<std::size_t>& places = places_.emplace_back();
    for (const RankChannel& own : rank.channels) {
      const std::string name =
          fmt::format("{} {} {} {} {}", own.group, own.members ? own.members->text() : "",
                      choice_name_or(own.flow, ""), own.from, own.to);
      const auto [found, is_new] = known.try_emplace(name, channels_.size());
      if (is_new) channels_.push_back({own.first, own.last, {}});
      Channel& channel = channels_[found->second];
      channel.first = std::min(channel.first, own.first);
      channel.last = std::max(channel.last, own.last);
      places.push_back(found->second);
    }
  }
  for (Channel& channel : channels_)
    channel.nodes.resize(static_cast<std::size_t>(channel.last - channel.first) + 1,
                         TimeGraph::kNone);
}

TimeGraph::Node Operations::node_of(TimeGraph& graph, std::size_t rank,
                                    const RankOperation& operation) {
  Channel& channel = channels_[places_[rank][operation.channel]];
  TimeGraph::Node& node =
      channel.nodes[static_cast<std::size_t>(operation.sequence - channel.first)];
  if (node == TimeGraph::kNone) node = graph.add_shared();
  return node;
}

}  // namespace viaduct
