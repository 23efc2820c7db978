#include "sharding/whole_weights.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

std::vector<WeightGather::Bucket> gathered_buckets(const ParameterEntries& entries) {
  std::vector<WeightGather::Bucket> weights;
  for (const ParameterBucket& bucket : entries.buckets()) {
    const ParameterBuffer& buffer = entries.buffer_of(bucket);
    weights.push_back({buffer.bucket_weights(bucket.bucket), buffer.shard_weights(bucket.bucket),
                       buffer.groups().shards});
  }
  std::reverse(weights.begin(), weights.end());
  return weights;
}

}  // namespace

WholeWeights::WholeWeights(const ParameterEntries& entries, const StoreSettings& settings,
                           OffloadedBlocks* blocks)
    : WeightStore(entries, settings, blocks), gather_(gathered_buckets(entries)) {}

Tensor WholeWeights::weight(const Parameter& parameter) const {
  const ParameterEntry& e = entries_.at(parameter);
  VIADUCT_CHECK(ShapeError, gather_.whole(gather_place(e.bucket)),
                "parameter store: {} of generation {} is {}", parameter.path, generation(),
                gather_.stale() ? "not written yet" : "not gathered");
  return e.weight;
}

void WholeWeights::require(const Parameter& parameter) {
  if (!gather_.stale()) gather_.require(gather_place(entries_.at(parameter).bucket));
}

void WholeWeights::begin_generation() {
  gather_.invalidate();
  instances_.invalidate();
  ++generation_;
}

void WholeWeights::chunks_written(size_t count) {
  instances_.gather(count);
  gather_.own_written(entries_.buckets_of_first(count));
}

void WholeWeights::written() {
  instances_.gather(entries_.chunks());
  gather_.own_written();
  if (!settings_.overlap_param_gather) gather_.finish();
}

void WholeWeights::finish() {
  VIADUCT_CHECK(ShapeError, !gather_.stale(),
                "parameter store: weights of generation {} are not written yet", generation());
  gather_.finish();
}

void WholeWeights::begin_chunk(size_t chunk) {
  if (settings_.align_param_gather && !gather_.stale())
    gather_.start(entries_.buckets_of_first(chunk + 2));
}

void WholeWeights::begin_program() {
  if (settings_.overlap_param_gather && !settings_.gather_with_optimizer_step)
    gather_.again();
  else
    gather_.finish();
  if (forms_ != nullptr) forms_->again();
}

}  // namespace viaduct
