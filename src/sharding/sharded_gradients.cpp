#include "sharding/sharded_gradients.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// Elements of a bucket, counted from its beginning, that no op overwrites: padding, and parameters
/// whose gradients ops add to.
std::vector<Range> added_to(const ParameterBuffer& buffer, size_t bucket) {
  const Range& whole = buffer.layout().buckets[bucket];
  std::vector<Range> overwritten;
  for (size_t i = 0; i < buffer.parameters().size(); ++i) {
    const auto& place = buffer.layout().parameters[i];
    if (place.bucket == bucket && buffer.parameters()[i]->weight_gradient)
      overwritten.push_back({place.range.begin - whole.begin, place.range.end - whole.begin});
  }
  overwritten.push_back({whole.size(), whole.size()});
  std::sort(overwritten.begin(), overwritten.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> rest;
  int64_t at = 0;
  for (const Range& range : overwritten) {
    if (range.begin > at) rest.push_back({at, range.begin});
    at = range.end;
  }
  return rest;
}

/// A frozen unit has no gradient: nothing opens it.
std::vector<GradientUnits::Unit> units_of(const ParameterEntries& entries) {
  std::vector<GradientUnits::Unit> units;
  for (const ParameterBucket& bucket : entries.buckets()) {
    const ParameterBuffer& buffer = entries.buffer_of(bucket);
    units.push_back({buffer.shard_gradients(bucket.bucket), buffer.own_gradients(bucket.bucket),
                     buffer.formats().message, buffer.layout().buckets[bucket.bucket].size(),
                     added_to(buffer, bucket.bucket), buffer.groups()});
  }
  return units;
}

}  // namespace

ShardedGradients::ShardedGradients(ParameterEntries& entries, const StoreSettings& settings,
                                   OffloadedBlocks* blocks)
    : entries_(entries),
      units_(units_of(entries), settings.average_in_collective ? ReduceOp::average : ReduceOp::sum,
             settings.overlap_grad_reduce, blocks) {
  size_t parameters = 0;
  for (const ParameterBuffer& buffer : entries.buffers()) {
    first_of_buffer_.push_back(parameters);
    parameters += buffer.parameters().size();
  }
  in_unit_.assign(parameters, 0);
}

void ShardedGradients::begin_step(OpContext& context) {
  context_.emplace(context);
  for (size_t unit = 0; unit < entries_.buckets().size(); ++unit) view(unit, Tensor());
  units_.begin_step(context);
}

void ShardedGradients::open(const Parameter& parameter) {
  const size_t unit = entries_.at(parameter).bucket;
  if (units_.open(unit)) return;
  VIADUCT_CHECK(ShapeError, context_.has_value(),
                "parameter store: a gradient of {} before the first step began", parameter.path);
  view(unit, units_.gradients(unit));
}

void ShardedGradients::done(const Parameter& parameter) {
  const ParameterEntry& e = entries_.at(parameter);
  ++in_unit_[place(e)];
  if (complete(e.bucket)) send(e.bucket);
}

void ShardedGradients::finish(OpContext& context) {
  send_open(context);
  units_.finish();
}

void ShardedGradients::gather() {
  for (size_t unit = 0; unit < entries_.buckets().size(); ++unit)
    if (entries_.buckets()[unit].parameters.front()->trained) view(unit, units_.gather(unit));
}

void ShardedGradients::end_program() {
  // Memory of whole gradients belongs to the program: none is left at its end.
  send_open(*context_);
  units_.finish_sent();
  summed_in_program_ = units_.summed();
}

void ShardedGradients::view(size_t unit, const Tensor& whole) {
  const ParameterBucket& bucket = entries_.buckets()[unit];
  for (const Parameter* parameter : bucket.parameters) {
    ParameterEntry& e = entries_.at(*parameter);
    e.gradient = entries_.buffer_of(bucket).in_bucket(whole, e.index);
    in_unit_[place(e)] = 0;
  }
}

bool ShardedGradients::complete(size_t unit) const {
  const ParameterBucket& bucket = entries_.buckets()[unit];
  const ParameterEntry& first = entries_.at(*bucket.parameters.front());
  const int64_t backwards = held(first) / first.uses;
  return std::ranges::all_of(bucket.parameters, [&](const Parameter* parameter) {
    const ParameterEntry& e = entries_.at(*parameter);
    return !e.open && held(e) > 0 && held(e) % e.uses == 0 && held(e) / e.uses == backwards;
  });
}

void ShardedGradients::send(size_t unit) {
  view(unit, Tensor());
  units_.send(unit);
}

void ShardedGradients::send_open(OpContext& context) {
  for (size_t unit = 0; unit < entries_.buckets().size(); ++unit) {
    if (!units_.open(unit)) continue;
    for (const Parameter* parameter : entries_.buckets()[unit].parameters) {
      const ParameterEntry& e = entries_.at(*parameter);
      if (held(e) == 0 && parameter->weight_gradient) fill(context, {e.gradient, 0});
    }
    send(unit);
  }
}

}  // namespace viaduct
