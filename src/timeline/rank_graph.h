#pragma once
// The work of one rank as the resolver sees it: nodes of its host and of its streams, and of its
// collectives, which `Operations` joins with those of other ranks.

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "timeline/resolver.h"
#include "timeline/time_graph.h"

namespace viaduct {

/// One collective or message of a rank: where the rank comes to it, and where it is done. Nodes are
/// those of the rank's part.
struct RankOperation {
  std::size_t index = 0;  // in record.collectives()
  WorkPart::Node come = WorkPart::kNone, done = WorkPart::kNone;
  double seconds = 0;
};

/// The nodes of a rank.
struct RankGraph {
  WorkPart part;
  std::vector<WorkPart::Node> ops;        // by index in record.ops(); none outside of the part
  std::vector<double> alone;              // by the same index: seconds without slowdown
  std::vector<RankOperation> operations;  // in the order of the record
  WorkPart::Node host = WorkPart::kNone;  // its last one
};

/// Different ranks' graphs may be made at the same time.
RankGraph rank_graph(const RankRecord& rank, const MachineTimes& machine);

/// The nodes of operations, each shared by all of its members.
class Operations {
 public:
  /// `most`: operations that all ranks have together.
  explicit Operations(std::size_t most) { nodes_.reserve(most); }
  /// The shared node of a rank's operation.
  TimeGraph::Node node_of(TimeGraph& graph, int rank, const CollectiveRecord& operation);

 private:
  /// Which operation it is, for all of its members: of messages both ends agree.
  struct Key {
    int64_t group = 0, flow = -1;  // numbers of names
    int from = -1, to = -1;        // of a message
    int64_t sequence = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  Key key_of(int rank, const CollectiveRecord& operation);
  int64_t flow_of(const std::string& name);

  std::map<std::string, int64_t> numbers_;                                  // of groups
  std::map<std::pair<const RankRule*, std::string_view>, int64_t> groups_;  // the same
  std::vector<std::string> flows_;                                          // there are two
  std::unordered_map<Key, TimeGraph::Node, Hash> nodes_;
};

}  // namespace viaduct
