#pragma once
// The work of one rank as the resolver sees it: nodes of its host and of its streams, and of its
// collectives, which `Operations` joins with those of other ranks.

#include <string_view>
#include <vector>

#include "timeline/resolver.h"
#include "timeline/time_graph.h"

namespace viaduct {

/// Operations that are counted together: the collectives of a group, or the messages of one flow
/// between two of its ranks. All members number them alike.
struct RankChannel {
  const RankRule* members = nullptr;
  std::string_view group;       // of the record
  std::optional<Flow> flow;     // of messages
  int from = -1, to = -1;       // of messages
  int64_t first = 0, last = 0;  // the lowest and the highest sequence
};

/// One collective or message of a rank: where the rank comes to it, and where it is done. Nodes are
/// those of the rank's part.
struct RankOperation {
  std::size_t index = 0;    // in record.collectives()
  std::size_t channel = 0;  // in RankGraph::channels
  int64_t sequence = 0;     // in the channel
  WorkPart::Node come = WorkPart::kNone, done = WorkPart::kNone;
  double seconds = 0;
};

/// The nodes of a rank.
struct RankGraph {
  WorkPart part;
  std::vector<WorkPart::Node> ops;        // by index in record.ops(); none outside of the part
  std::vector<double> alone;              // by the same index: seconds without slowdown
  std::vector<RankOperation> operations;  // in the order of the record
  std::vector<RankChannel> channels;
  WorkPart::Node host = WorkPart::kNone;  // its last one
};

/// Different ranks' graphs may be made at the same time.
RankGraph rank_graph(const RankRecord& rank, const MachineTimes& machine);

/// The nodes of operations, each shared by all of its members.
class Operations {
 public:
  explicit Operations(const std::vector<RankGraph>& ranks);
  /// The shared node of an operation of `ranks[rank]`.
  TimeGraph::Node node_of(TimeGraph& graph, std::size_t rank, const RankOperation& operation);

 private:
  /// The same channel of all its members.
  struct Channel {
    int64_t first = 0, last = 0;         // the lowest and the highest sequence
    std::vector<TimeGraph::Node> nodes;  // by sequence, from the first one on
  };
  std::vector<Channel> channels_;
  std::vector<std::vector<std::size_t>> places_;  // in channels_, by rank and its own channel
};

}  // namespace viaduct
