#pragma once
// How long a collective takes on a cluster, from the arrival of all members: latency of its steps
// plus bytes over the links that it uses (alpha-beta).
//
// Rank r is GPU r mod domain of domain r / domain. A group inside a domain runs a ring over the
// fast links; a group with one member a domain a ring over the network; others both, the phases of
// one overlapping those of the other except for a part. Every member has a NIC of its own, so a
// group with m members in a domain enters it with m NICs.

#include "hardware/cluster.h"
#include "timeline/record.h"
#include "timeline/resolver.h"

namespace viaduct {

struct CollectiveTimeSettings {
  double link_share = 0.8;          // of the links' rate that large messages reach
  double network_share = 0.9;       // of the NICs' rate
  double base_seconds = 8e-6;       // start of an operation
  double link_step_seconds = 2e-6;  // each step of a ring inside a domain
  double network_step_seconds = 6e-6;
  double exposed_share = 0.1;  // of the shorter phase of two that run beside each other
};

class CollectiveTime {
 public:
  /// How a group is placed on the cluster.
  struct Extent {
    int inside = 1;   // members in the domain with the most
    int domains = 1;  // domains with members
    int ranks = 1;    // members
  };

  explicit CollectiveTime(const Cluster& cluster, const CollectiveTimeSettings& settings = {});
  double seconds(const CollectiveRecord& collective) const;
  /// For how long it uses the links of a member at their full rate.
  LinkUse link_use(const CollectiveRecord& collective) const;
  /// The same for a collective that is not in a record: `bytes` of the larger operand.
  double seconds(Collective operation, double bytes, const Extent& extent) const;
  /// Of the ranks 0, stride, 2 · stride … of a group of `size`.
  Extent strided_extent(int size, int stride) const;

 private:
  Extent extent(const RankRule& members) const;
  LinkUse message_use(const CollectiveRecord& message) const;
  LinkUse link_use(Collective operation, double bytes, const Extent& extent) const;

  Cluster cluster_;
  CollectiveTimeSettings settings_;
  double link_ = 0, network_ = 0;  // bytes per second of a rank
};

}  // namespace viaduct
