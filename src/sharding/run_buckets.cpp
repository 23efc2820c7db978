#include "sharding/run_buckets.h"

namespace viaduct {

std::vector<RunBucket> run_buckets(const std::vector<RunSize>& runs, double fraction,
                                   int64_t most_elements) {
  int64_t all = 0, gone = 0;
  for (const RunSize& run : runs) all += run.elements;
  const double most_gone = fraction * static_cast<double>(all);
  std::vector<RunBucket> buckets;
  int64_t in_bucket = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunSize& run = runs[i];
    const bool leaves = fraction > 0 && static_cast<double>(gone + run.elements) <= most_gone;
    if (leaves) gone += run.elements;
    const bool goes_on = !buckets.empty() && buckets.back().offloaded == leaves &&
                         runs[i - 1].chunk == run.chunk && runs[i - 1].unit == run.unit &&
                         (!leaves || in_bucket + run.elements <= most_elements);
    if (!goes_on) {
      buckets.push_back({i, i, leaves});
      in_bucket = 0;
    }
    buckets.back().end = i + 1;
    in_bucket += run.elements;
  }
  return buckets;
}

}  // namespace viaduct
