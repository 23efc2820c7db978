#pragma once
// Sums over a step: everything that a run keeps of a step without profiling. Its size depends on
// the number of kinds of ops and groups, not on the number of ops run.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "timeline/collective.h"

namespace viaduct {

/// The ops of one name.
struct OpCounter {
  int64_t launches = 0;
  double seconds = 0;
};

/// The operations of one kind in one group.
struct CollectiveCounter {
  Collective operation = Collective::barrier;
  std::string group;
  int64_t count = 0;
  int64_t wire_bytes = 0;   // sent to a network by this rank
  double wait_seconds = 0;  // during which the host waited for them
  double busy_seconds = 0;  // during which data moved, if the backend measures it
};

struct StepCounters {
  std::map<std::string, OpCounter, std::less<>> ops;  // by name
  std::vector<CollectiveCounter> collectives;

  /// Of all collectives.
  double wait_seconds() const {
    double sum = 0;
    for (const CollectiveCounter& c : collectives) sum += c.wait_seconds;
    return sum;
  }
  double busy_seconds() const {
    double sum = 0;
    for (const CollectiveCounter& c : collectives) sum += c.busy_seconds;
    return sum;
  }
};

}  // namespace viaduct
