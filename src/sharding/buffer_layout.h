#pragma once
// The places of parameters in a buffer, the buckets that they form, and the rank that owns each
// part of a bucket. A pure function of sizes: every rank computes the same layout (rules:
// Megatron-Core's parameter and gradient buffers). Everything counts in elements.

#include <cstdint>
#include <optional>
#include <vector>

namespace viaduct {

/// Elements [begin, end).
struct Range {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// The intersection of two ranges, if they overlap.
std::optional<Range> overlap(const Range& a, const Range& b);

struct LayoutParameter {
  int64_t elements = 0;
  bool own_bucket = false;  // other stages hold it too: their buckets must look alike
  /// A bucket holds parameters of one unit only. The buckets of a unit follow each other.
  int unit = 0;
};

struct LayoutSettings {
  /// Ranks that share each bucket. More than one needs `padded`.
  int shards = 1;
  /// With the distributed optimizer parameters start at multiples of 64 elements, and buckets end
  /// at multiples of lcm(shards · shard_multiple, 128). Without it nothing is padded.
  bool padded = true;
  /// A bucket closes with the parameter that brings it to this many elements; 0: one bucket.
  int64_t bucket_elements = 0;
  /// Shards are multiples of this many elements, so that no group with a shared scale is cut.
  int64_t shard_multiple = 1;
  /// Buckets also end at multiples of 65536 elements: rings of 8 then send even messages.
  bool pad_for_bus_bandwidth = false;
};

struct BufferLayout {
  struct Place {
    Range range;  // in the buffer
    size_t bucket = 0;
    bool operator==(const Place&) const = default;
  };
  int shards = 1;
  std::vector<Place> parameters;  // in the order they were given
  std::vector<Range> buckets;     // in the buffer, padding at the end included

  int64_t elements() const { return buckets.empty() ? 0 : buckets.back().end; }
  /// Shard `shard` of a bucket, in the buffer: its shard-th equal part, regardless of the borders
  /// of parameters.
  Range shard(size_t bucket, int shard) const;
};

/// Lays out parameters, given in the order of first use in the forward, from the last to the first:
/// gradients are completed in about this order, so buckets fill one after the other. A parameter is
/// never split over buckets. ShapeError if the sizes make no sense.
BufferLayout make_buffer_layout(const std::vector<LayoutParameter>& parameters,
                                const LayoutSettings& settings);

/// The elements of a parameter in a shard, four times: counted from the begin of the buffer, of the
/// bucket, of the shard and of the parameter. Nothing if the shard has none of them.
struct ShardRanges {
  Range in_buffer, in_bucket, in_shard, in_parameter;
  bool operator==(const ShardRanges&) const = default;
};
std::optional<ShardRanges> shard_ranges(const BufferLayout& layout, size_t parameter, int shard);

}  // namespace viaduct
