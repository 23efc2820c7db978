#include "model/model.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

void append_new(std::vector<const Parameter*>& list, const std::vector<const Parameter*>& more) {
  for (const Parameter* parameter : more) {
    if (std::find(list.begin(), list.end(), parameter) == list.end()) list.push_back(parameter);
  }
}

/// A segment and whose it is.
struct Place {
  const Layer* layer = nullptr;
  Segment* segment = nullptr;
};

/// The segments of a chunk that `range` names, in the order of the forward.
std::vector<Place> places(const ModelChunk& chunk, const SegmentRange& range) {
  std::vector<Place> all;
  for (const Layer& layer : chunk.layers) {
    for (const auto& segment : layer.segments) all.push_back({&layer, segment.get()});
  }
  const auto [begin, end] = range.among(static_cast<int>(all.size()));
  return {all.begin() + begin, all.begin() + end};
}

/// Says in the record which segment runs.
RecordScope segment_scope(const RankContext& context, const Place& place) {
  return {context.ops.device.record(), ScopeKind::segment, place.layer->path,
          place.segment->name()};
}

/// Calls f with segments of a chunk, last first.
template <class F>
void for_each_backwards(const RankContext& context, const ModelChunk& chunk,
                        const SegmentRange& range, F&& f) {
  const std::vector<Place> list = places(chunk, range);
  for (auto place = list.rbegin(); place != list.rend(); ++place) {
    const RecordScope scope = segment_scope(context, *place);
    f(*place->segment);
  }
}

/// Name of what leaves a layer, for observers.
std::string output_name(const ModelChunk& chunk, const Layer& layer) {
  const auto number = &layer - chunk.layers.data();
  if (chunk.holds.embedding && number == 0) return "embed";
  return "layer" +
         std::to_string(chunk.holds.first_block + number - (chunk.holds.embedding ? 1 : 0));
}

}  // namespace

std::vector<const Parameter*> ModelChunk::parameters() const {
  std::vector<const Parameter*> list;
  for (const Layer& layer : layers) {
    for (const auto& segment : layer.segments) append_new(list, segment->parameters());
  }
  return list;
}

std::vector<const Parameter*> ModelChunk::uses() const {
  std::vector<const Parameter*> list;
  for (const Layer& layer : layers) {
    for (const auto& segment : layer.segments) {
      const auto used = segment->parameters();
      list.insert(list.end(), used.begin(), used.end());
    }
  }
  return list;
}

Model::Model(ModelConfig config, std::unique_ptr<RotaryTable> rotary,
             std::vector<ModelChunk> chunks)
    : config_(std::move(config)), rotary_(std::move(rotary)), chunks_(std::move(chunks)) {}

std::vector<const Parameter*> Model::parameters() const {
  std::vector<const Parameter*> list;
  for (const ModelChunk& chunk : chunks_) append_new(list, chunk.parameters());
  return list;
}

std::vector<std::vector<const Parameter*>> Model::uses() const {
  std::vector<std::vector<const Parameter*>> list;
  for (const ModelChunk& chunk : chunks_) list.push_back(chunk.uses());
  return list;
}

int Model::segments(size_t chunk) const {
  size_t count = 0;
  for (const Layer& layer : chunks_[chunk].layers) count += layer.segments.size();
  return static_cast<int>(count);
}

SegmentRange Model::before_head(size_t chunk) const {
  return chunks_[chunk].head == nullptr ? SegmentRange{} : kAllButLastSegment;
}

TensorSet Model::forward(RankContext& context, size_t chunk, SegmentRange range, const Batch& batch,
                         TensorSet in, SavedStore& saved, const Observer& observer) const {
  const ModelChunk& held = chunks_[chunk];
  TensorSet set = std::move(in);
  for (const Place& place : places(held, range)) {
    const RecordScope scope = segment_scope(context, place);
    set = place.segment->forward(context, batch, set, saved);
    const bool ends_layer = place.segment == place.layer->segments.back().get();
    if (observer && ends_layer && place.segment != held.head)
      observer(output_name(held, *place.layer), set.get(kHidden));
  }
  return set;
}

TensorSet Model::backward(RankContext& context, size_t chunk, SegmentRange range,
                          const Batch& batch, TensorSet d_out, SavedStore& saved) const {
  for_each_backwards(context, chunks_[chunk], range, [&](Segment& segment) {
    d_out = segment.backward(context, batch, d_out, saved);
  });
  return d_out;
}

TensorSet Model::backward_input(RankContext& context, size_t chunk, SegmentRange range,
                                const Batch& batch, TensorSet d_out, SavedStore& saved) const {
  for_each_backwards(context, chunks_[chunk], range, [&](Segment& segment) {
    d_out = segment.backward_input(context, batch, d_out, saved);
  });
  return d_out;
}

void Model::backward_weight(RankContext& context, size_t chunk, SegmentRange range,
                            const Batch& batch, SavedStore& saved) const {
  for_each_backwards(context, chunks_[chunk], range,
                     [&](Segment& segment) { segment.backward_weight(context, batch, saved); });
}

}  // namespace viaduct
