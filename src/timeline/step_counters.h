#pragma once
// What a step was made of in sums: all that a run keeps of a step that nobody profiles. Its size
// depends on how many kinds of ops and groups there are, not on how many ops run.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace viaduct {

/// The ops of one name.
struct OpCounter {
  int64_t launches = 0;
  double seconds = 0;
};

/// The operations of one kind in one group.
struct CollectiveCounter {
  std::string operation, group;
  int64_t count = 0;
  int64_t wire_bytes = 0;   // that this rank hands to a network
  double wait_seconds = 0;  // in which the host waited for them
  double busy_seconds = 0;  // in which data moved, where the backend knows
};

struct StepCounters {
  std::map<std::string, OpCounter> ops;  // by name
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
