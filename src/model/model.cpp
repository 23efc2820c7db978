#include "model/model.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace viaduct {
namespace {

void append_new(std::vector<const Parameter*>& list, const std::vector<const Parameter*>& more) {
  for (const Parameter* parameter : more) {
    if (std::find(list.begin(), list.end(), parameter) == list.end()) list.push_back(parameter);
  }
}

/// A segment, whose it is, and which one of the chunk.
struct Place {
  const Layer* layer = nullptr;
  Segment* segment = nullptr;
  int number = 0;
};

/// The segments of a chunk in the order of the forward.
std::vector<Place> places(const ModelChunk& chunk) {
  std::vector<Place> all;
  for (const Layer& layer : chunk.layers) {
    for (const auto& segment : layer.segments)
      all.push_back({&layer, segment.get(), static_cast<int>(all.size())});
  }
  return all;
}

/// Those that `range` names.
std::vector<Place> places(const ModelChunk& chunk, const SegmentRange& range) {
  const std::vector<Place> all = places(chunk);
  const auto [begin, end] = range.among(static_cast<int>(all.size()));
  return {all.begin() + begin, all.begin() + end};
}

/// The group of layers that the place runs again with; null: its layer does not.
const LayerGroup* group_of(const Place& place, const SavedStore& saved) {
  return saved.policy() == nullptr ? nullptr : saved.policy()->group_of(place.layer->block);
}

/// How the store knows the place.
SegmentRun segment_run(const Place& place, const SavedStore& saved) {
  SegmentRun run{.instance = place.number, .block = place.layer->block};
  if (const LayerGroup* group = group_of(place, saved)) {
    const bool ends = place.layer->block + 1 == group->first_block + group->blocks &&
                      place.segment == place.layer->segments.back().get();
    run.drops = true, run.drops_output = !ends;
  }
  return run;
}

/// Whether a group of layers that runs again begins with the place.
bool begins_group(const Place& place, const SavedStore& saved) {
  const LayerGroup* group = group_of(place, saved);
  return group != nullptr && place.layer->block == group->first_block &&
         place.segment == place.layer->segments.front().get();
}

/// Under the first segment of a group: its input, which is all that the group keeps.
constexpr std::string_view kLayerInput = "input";

/// Says in the record which segment runs.
RecordScope segment_scope(const RankContext& context, const Place& place) {
  return {context.ops.device.record(), ScopeKind::segment, place.layer->path,
          place.segment->name()};
}

void keep_layer_input(const Place& first, const TensorSet& in, SavedStore& saved) {
  const SegmentScope scope(saved, {.instance = first.number, .block = first.layer->block});
  const UnitScope unit(saved, "layer");
  saved.keep(first.layer, kLayerInput, in.get(kHidden));
}

/// Where the group is in the chunk: all its segments.
std::vector<Place> places_of(const LayerGroup& group, const ModelChunk& chunk) {
  std::vector<Place> list;
  std::set<int64_t> blocks;
  for (const Place& place : places(chunk)) {
    const int64_t block = place.layer->block;
    if (block < group.first_block || block >= group.first_block + group.blocks) continue;
    list.push_back(place);
    blocks.insert(block);
  }
  VIADUCT_CHECK(ShapeError, static_cast<int64_t>(blocks.size()) == group.blocks,
                "backward: blocks {} to {} run again together, but {} of them are in the chunk",
                group.first_block, group.first_block + group.blocks - 1, blocks.size());
  return list;
}

/// Runs the group of layers of `place` again, if it has not been: its segments then have kept what
/// their backwards read.
void run_group_again(RankContext& context, const ModelChunk& chunk, const Place& place,
                     const Batch& batch, SavedStore& saved) {
  const LayerGroup* group = group_of(place, saved);
  if (group == nullptr) return;
  const std::vector<Place> list = places_of(*group, chunk);
  const Place& first = list.front();
  TensorSet set;
  {
    const LayerReplayScope scope(saved, segment_run(first, saved));
    if (!saved.has(first.layer, kLayerInput)) return;
    set = TensorSet(kHidden, saved.take(first.layer, kLayerInput));
  }
  for (const Place& again : list) {
    const RecordScope scope = segment_scope(context, again);
    const LayerReplayScope replay(saved, segment_run(again, saved));
    set = again.segment->forward(context, batch, set, saved);
  }
}

/// Calls f with segments of a chunk, last first; what was dropped is there again.
template <class F>
void for_each_backwards(RankContext& context, const ModelChunk& chunk, const SegmentRange& range,
                        const Batch& batch, SavedStore& saved, F&& f) {
  const std::vector<Place> list = places(chunk, range);
  for (auto place = list.rbegin(); place != list.rend(); ++place) {
    run_group_again(context, chunk, *place, batch, saved);
    const BackwardScope backward(saved, segment_run(*place, saved), context, batch);
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
    if (begins_group(place, saved)) keep_layer_input(place, set, saved);
    const SegmentScope segment(saved, segment_run(place, saved));
    set = place.segment->forward(context, batch, set, saved);
    const bool ends_layer = place.segment == place.layer->segments.back().get();
    if (observer && ends_layer && place.segment != held.head)
      observer(output_name(held, *place.layer), set.get(kHidden));
  }
  return set;
}

TensorSet Model::backward(RankContext& context, size_t chunk, SegmentRange range,
                          const Batch& batch, TensorSet d_out, SavedStore& saved) const {
  for_each_backwards(context, chunks_[chunk], range, batch, saved, [&](Segment& segment) {
    d_out = segment.backward(context, batch, d_out, saved);
  });
  return d_out;
}

TensorSet Model::backward_input(RankContext& context, size_t chunk, SegmentRange range,
                                const Batch& batch, TensorSet d_out, SavedStore& saved) const {
  for_each_backwards(context, chunks_[chunk], range, batch, saved, [&](Segment& segment) {
    d_out = segment.backward_input(context, batch, d_out, saved);
  });
  return d_out;
}

void Model::backward_weight(RankContext& context, size_t chunk, SegmentRange range,
                            const Batch& batch, SavedStore& saved) const {
  for_each_backwards(context, chunks_[chunk], range, batch, saved,
                     [&](Segment& segment) { segment.backward_weight(context, batch, saved); });
}

}  // namespace viaduct
