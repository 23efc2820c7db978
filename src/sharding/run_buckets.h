#pragma once
// Which of a rank's runs are updated together, and for which masters and optimizer states live in
// the second memory. A pure function of sizes.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace viaduct {

/// The runs [begin, end) of a chunk of the model.
struct RunBucket {
  size_t begin = 0, end = 0;
  bool offloaded = false;

  bool operator==(const RunBucket&) const = default;
};

struct RunSize {
  int64_t elements = 0;
  size_t chunk = 0;
  size_t unit = 0;  // a bucket does not reach over its end
};

/// Consecutive runs of one chunk and one unit that are all offloaded or all stay. Runs are
/// offloaded in order while their sum is at most `fraction` of all elements (Megatron's rule).
/// Buckets of offloaded runs have at most `most_elements`, or one run.
std::vector<RunBucket> run_buckets(const std::vector<RunSize>& runs, double fraction,
                                   int64_t most_elements);

}  // namespace viaduct
