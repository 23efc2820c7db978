#include "plan/collective_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"

namespace viaduct {
namespace {

/// How often the bytes of the larger operand cross the ring, as a multiple of (n − 1) / n.
double passes_of(std::string_view operation) {
  return operation == "all_reduce" ? 2 : 1;
}

}  // namespace

CollectiveTime::CollectiveTime(const Cluster& cluster, const CollectiveTimeSettings& settings)
    : cluster_(cluster), settings_(settings) {
  link_ = cluster.gpu.link_bytes_per_second * settings.link_share;
  network_ = cluster.nic_bytes_per_second * settings.network_share / cluster.oversubscription;
}

CollectiveTime::Extent CollectiveTime::extent(const RankRule& members) const {
  const int size = members.size();
  // A regular group: its members of the first domain stand for those of each. Only a few are
  // examined.
  const int first_domain = members.member(0) / cluster_.domain;
  int inside = 0;
  while (inside < size && members.member(inside) / cluster_.domain == first_domain) ++inside;
  return {inside, (size + inside - 1) / inside, size};
}

double CollectiveTime::message_seconds(const CollectiveRecord& message) const {
  const int here = message.members->member(message.place);
  const bool inside = here / cluster_.domain == message.peer / cluster_.domain;
  const double rate = inside ? link_ : network_;
  return settings_.base_seconds + static_cast<double>(message.bytes) / rate;
}

double CollectiveTime::seconds(const CollectiveRecord& collective) const {
  if (collective.ranks <= 1) return 0;
  if (collective.operation == "send" || collective.operation == "receive")
    return message_seconds(collective);
  return seconds(collective.operation, static_cast<double>(collective.bytes),
                 extent(*collective.members));
}

CollectiveTime::Extent CollectiveTime::strided_extent(int size, int stride) const {
  const int inside = std::clamp((cluster_.domain + stride - 1) / stride, 1, size);
  return {inside, (size + inside - 1) / inside, size};
}

double CollectiveTime::seconds(std::string_view operation, double bytes,
                               const Extent& extent) const {
  const double passes = passes_of(operation);
  const double inside = extent.inside, domains = extent.domains;
  const double link_steps = passes * (inside - 1), network_steps = passes * (domains - 1);
  const double latency = settings_.base_seconds + link_steps * settings_.link_step_seconds +
                         network_steps * settings_.network_step_seconds;
  if (operation == "barrier") return latency;
  if (operation == "all_to_all") {
    // To each of the others an equal share; those outside of the domain over the own NIC.
    const double others = extent.ranks, near = bytes * (inside - 1) / others;
    const double far = bytes * (others - inside) / others;
    return latency + std::max(near / link_, far / network_);
  }
  const double near = passes * (inside - 1) / inside * bytes / link_;
  // Between domains each member carries its share of the bytes.
  const double far = passes * (domains - 1) / domains * bytes / inside / network_;
  return latency + std::max(near, far) + settings_.exposed_share * std::min(near, far);
}

}  // namespace viaduct
