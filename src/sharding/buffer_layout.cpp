#include "sharding/buffer_layout.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr int64_t kParameterStart = 64, kBucketEnd = 128, kBusBandwidth = 65536;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Range relative(const Range& range, int64_t origin) {
  return {range.begin - origin, range.end - origin};
}

}  // namespace

std::optional<Range> overlap(const Range& a, const Range& b) {
  const Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.size() > 0 ? std::optional(both) : std::nullopt;
}

Range BufferLayout::shard(size_t bucket, int shard) const {
  const Range& whole = buckets.at(bucket);
  const int64_t length = whole.size() / shards;
  return {whole.begin + shard * length, whole.begin + (shard + 1) * length};
}

BufferLayout make_buffer_layout(const std::vector<LayoutParameter>& parameters,
                                const LayoutSettings& settings) {
  VIADUCT_CHECK(ShapeError, settings.shards >= 1 && (settings.shards == 1 || settings.padded),
                "buffer layout: {} shards need padded buckets", settings.shards);
  int64_t divisor = std::lcm(settings.shards * settings.shard_multiple, kBucketEnd);
  if (settings.pad_for_bus_bandwidth) divisor = std::lcm(divisor, kBusBandwidth);

  BufferLayout layout;
  layout.shards = settings.shards;
  layout.parameters.resize(parameters.size());
  int64_t at = 0, bucket_begin = 0;
  const auto close_bucket = [&] {
    if (at == bucket_begin) return;
    if (settings.padded) at = round_up(at, divisor);
    layout.buckets.push_back({bucket_begin, at});
    bucket_begin = at;
  };
  for (size_t i = parameters.size(); i-- > 0;) {
    const LayoutParameter& parameter = parameters[i];
    VIADUCT_CHECK(ShapeError, parameter.elements > 0, "buffer layout: parameter {} is empty", i);
    const bool other_unit = i + 1 < parameters.size() && parameter.unit != parameters[i + 1].unit;
    if (parameter.own_bucket || other_unit) close_bucket();
    if (settings.padded) at = round_up(at, kParameterStart);
    layout.parameters[i] = {{at, at + parameter.elements}, layout.buckets.size()};
    at += parameter.elements;
    const bool full = settings.bucket_elements > 0 && at - bucket_begin >= settings.bucket_elements;
    if (full || parameter.own_bucket) close_bucket();
  }
  close_bucket();
  return layout;
}

std::optional<ShardRanges> shard_ranges(const BufferLayout& layout, size_t parameter, int shard) {
  const auto& place = layout.parameters.at(parameter);
  const Range own = layout.shard(place.bucket, shard);
  const auto both = overlap(place.range, own);
  if (!both) return std::nullopt;
  return ShardRanges{*both, relative(*both, layout.buckets[place.bucket].begin),
                     relative(*both, own.begin), relative(*both, place.range.begin)};
}

}  // namespace viaduct
