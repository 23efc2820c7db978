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

void check_all_read(const SavedStore& saved) {
  VIADUCT_CHECK(ShapeError, saved.entries() == 0, "backward: {} saved values were never read",
                saved.entries());
}

/// Says in the record which segment runs.
RecordScope segment_scope(const RankContext& context, const Layer& layer, const Segment& segment) {
  return {context.ops.device.record(), ScopeKind::segment, layer.path, segment.name()};
}

/// Calls f with the segments of a chunk, last first.
template <class F>
void for_each_backwards(const RankContext& context, const ModelChunk& chunk, F&& f) {
  for (auto layer = chunk.layers.rbegin(); layer != chunk.layers.rend(); ++layer) {
    for (auto segment = layer->segments.rbegin(); segment != layer->segments.rend(); ++segment) {
      const RecordScope scope = segment_scope(context, *layer, **segment);
      f(**segment);
    }
  }
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

TensorSet Model::hidden(RankContext& context, size_t chunk, const Batch& batch, const TensorSet& in,
                        SavedStore& saved, const Observer& observer) const {
  const ModelChunk& held = chunks_[chunk];
  TensorSet set = in;
  int64_t block = held.holds.first_block;
  for (const Layer& layer : held.layers) {
    if (held.head != nullptr && &layer == &held.layers.back()) break;
    for (const auto& segment : layer.segments) {
      const RecordScope scope = segment_scope(context, layer, *segment);
      set = segment->forward(context, batch, set, saved);
    }
    const bool embedding = held.holds.embedding && &layer == &held.layers.front();
    if (observer) observer(embedding ? "embed" : "layer" + std::to_string(block), set.get(kHidden));
    if (!embedding) ++block;
  }
  return set;
}

TensorSet Model::forward(RankContext& context, size_t chunk, const Batch& batch,
                         const TensorSet& in, SavedStore& saved, const Observer& observer) const {
  const TensorSet out = hidden(context, chunk, batch, in, saved, observer);
  HeadSegment* head = chunks_[chunk].head;
  if (head == nullptr) return out;
  const RecordScope scope = segment_scope(context, chunks_[chunk].layers.back(), *head);
  return head->forward(context, batch, out, saved);
}

TensorSet Model::backward(RankContext& context, size_t chunk, const Batch& batch, TensorSet d_out,
                          SavedStore& saved, HeadWeight head_weight) const {
  const bool later = head_weight == HeadWeight::later;
  const Segment* const kept_open = later ? chunks_[chunk].head : nullptr;
  for_each_backwards(context, chunks_[chunk], [&](Segment& segment) {
    d_out = &segment == kept_open ? segment.backward_input(context, batch, d_out, saved)
                                  : segment.backward(context, batch, d_out, saved);
  });
  if (kept_open == nullptr) check_all_read(saved);
  return d_out;
}

void Model::backward_head_weight(RankContext& context, const Batch& batch,
                                 SavedStore& saved) const {
  VIADUCT_CHECK(ShapeError, chunks_.back().head != nullptr, "model: the head is on another rank");
  HeadSegment& head = *chunks_.back().head;
  const RecordScope scope = segment_scope(context, chunks_.back().layers.back(), head);
  head.backward_weight(context, batch, saved);
  check_all_read(saved);
}

TensorSet Model::backward_input(RankContext& context, size_t chunk, const Batch& batch,
                                TensorSet d_out, SavedStore& saved) const {
  for_each_backwards(context, chunks_[chunk], [&](Segment& segment) {
    d_out = segment.backward_input(context, batch, d_out, saved);
  });
  return d_out;
}

void Model::backward_weight(RankContext& context, size_t chunk, const Batch& batch,
                            SavedStore& saved) const {
  for_each_backwards(context, chunks_[chunk],
                     [&](Segment& segment) { segment.backward_weight(context, batch, saved); });
  check_all_read(saved);
}

}  // namespace viaduct
