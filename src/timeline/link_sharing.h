#pragma once
// Transfers that use the same link at the same time get equal parts of its rate.

#include <vector>

namespace viaduct {

/// A transfer: it may begin at `begin` and takes `seconds` with the link for itself.
struct LinkTransfer {
  double begin = 0, seconds = 0;
};

/// By how much longer each transfer takes, in seconds, because of the others: with k of them at a
/// time each proceeds at a k-th of the rate (processor sharing). O(n log n).
std::vector<double> sharing_delays(const std::vector<LinkTransfer>& transfers);

}  // namespace viaduct
