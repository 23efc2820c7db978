#include "plan/collective_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "timeline/messages.h"

namespace viaduct {
namespace {

/// How often the bytes of the larger operand cross the ring, as a multiple of (n − 1) / n.
double passes_of(Collective operation) {
  return operation == Collective::all_reduce ? 2 : 1;
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

LinkUse CollectiveTime::message_use(const CollectiveRecord& message) const {
  const int here = message.members->member(message.place);
  const bool inside = here / cluster_.domain == message.peer / cluster_.domain;
  const auto bytes = static_cast<double>(message.bytes);
  return inside ? LinkUse{bytes / link_, 0} : LinkUse{0, bytes / network_};
}

LinkUse CollectiveTime::link_use(const CollectiveRecord& collective) const {
  if (collective.ranks <= 1) return {};
  if (is_message(collective)) return message_use(collective);
  return link_use(collective.operation, static_cast<double>(collective.bytes),
                  extent(*collective.members));
}

double CollectiveTime::seconds(const CollectiveRecord& collective) const {
  if (collective.ranks <= 1) return 0;
  if (is_message(collective)) {
    const LinkUse use = message_use(collective);
    return settings_.base_seconds + use.link + use.network;
  }
  return seconds(collective.operation, static_cast<double>(collective.bytes),
                 extent(*collective.members));
}

CollectiveTime::Extent CollectiveTime::strided_extent(int size, int stride) const {
  const int inside = std::clamp((cluster_.domain + stride - 1) / stride, 1, size);
  return {inside, (size + inside - 1) / inside, size};
}

LinkUse CollectiveTime::link_use(Collective operation, double bytes, const Extent& extent) const {
  const double inside = extent.inside, domains = extent.domains;
  if (operation == Collective::barrier) return {};
  if (operation == Collective::all_to_all) {
    // To each of the others an equal share; those outside of the domain over the own NIC.
    const double others = extent.ranks;
    return {bytes * (inside - 1) / others / link_, bytes * (others - inside) / others / network_};
  }
  const double passes = passes_of(operation);
  // Between domains each member carries its share of the bytes.
  return {passes * (inside - 1) / inside * bytes / link_,
          passes * (domains - 1) / domains * bytes / inside / network_};
}

double CollectiveTime::seconds(Collective operation, double bytes, const Extent& extent) const {
  const double passes = passes_of(operation);
  const double link_steps = passes * (extent.inside - 1);
  const double network_steps = passes * (extent.domains - 1);
  const double latency = settings_.base_seconds + link_steps * settings_.link_step_seconds +
                         network_steps * settings_.network_step_seconds;
  const LinkUse use = link_use(operation, bytes, extent);
  // The messages of an all-to-all need no second phase.
  const double exposed = operation == Collective::all_to_all ? 0 : settings_.exposed_share;
  return latency + std::max(use.link, use.network) + exposed * std::min(use.link, use.network);
}

}  // namespace viaduct
