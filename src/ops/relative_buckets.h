#pragma once
// Buckets of the distances between queries and keys, which share a learned bias of attention's
// scores (Raffel et al. 2020, arXiv 1910.10683, section 2.1).

#include <cstdint>
#include <string>

namespace viaduct {

/// How distances share the rows of the table. Of `buckets` (those of one direction: half of them if
/// there are two) the first half stands for one distance each, 0, 1, …; the others for distances
/// that grow by a constant factor, up to `max_distance`; beyond it all share the last one.
struct RelativeBuckets {
  int64_t buckets = 32;
  int64_t max_distance = 128;
  /// Keys behind the query have the upper half of the buckets; false: they share bucket 0 with
  /// distance 0, as causal attention does not see them.
  bool both_directions = true;

  bool operator==(const RelativeBuckets&) const = default;
};

/// Those of one direction.
inline int64_t buckets_of_direction(const RelativeBuckets& relative) {
  return relative.both_directions ? relative.buckets / 2 : relative.buckets;
}
/// "" if the numbers fit together; else what is wrong with them.
std::string relative_buckets_problem(const RelativeBuckets& relative);
/// The bucket of a key `distance` places behind the query (before it: negative), for numbers that
/// fit together. The logarithm is computed in FP32, as Hugging Face's code does: distances at the
/// border of two buckets depend on its rounding.
int64_t relative_bucket(const RelativeBuckets& relative, int64_t distance);

}  // namespace viaduct
