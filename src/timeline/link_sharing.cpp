#include "timeline/link_sharing.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <queue>
#include <utility>

namespace viaduct {

std::vector<double> sharing_delays(const std::vector<LinkTransfer>& transfers) {
  std::vector<double> delays(transfers.size(), 0);
  std::vector<std::size_t> order(transfers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return transfers[a].begin < transfers[b].begin;
  });
  // `served`: what each transfer that was active all the time has got by `now`, in seconds of the
  // whole link. One ends when it has got its own seconds since it came.
  double now = 0, served = 0;
  using Active = std::pair<double, std::size_t>;  // served at its end, transfer
  std::priority_queue<Active, std::vector<Active>, std::greater<>> active;
  const auto end_first = [&] {
    const auto [end, transfer] = active.top();
    now += (end - served) * static_cast<double>(active.size());
    served = end;
    active.pop();
    const LinkTransfer& done = transfers[transfer];
    delays[transfer] = std::max(0.0, now - done.begin - done.seconds);
  };
  const auto first_ends_at = [&] {
    return now + (active.top().first - served) * static_cast<double>(active.size());
  };
  for (const std::size_t next : order) {
    const LinkTransfer& transfer = transfers[next];
    while (!active.empty() && first_ends_at() <= transfer.begin) end_first();
    if (!active.empty()) served += (transfer.begin - now) / static_cast<double>(active.size());
    now = transfer.begin;
    active.emplace(served + transfer.seconds, next);
  }
  while (!active.empty()) end_first();
  return delays;
}

}  // namespace viaduct
