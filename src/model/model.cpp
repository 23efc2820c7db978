#include "model/model.h"

#include <algorithm>
#include <ranges>

#include "model/segment_edges.h"

namespace viaduct {
namespace {

void append_new(std::vector<const Parameter*>& list, const std::vector<const Parameter*>& more) {
  for (const Parameter* parameter : more) {
    if (std::find(list.begin(), list.end(), parameter) == list.end()) list.push_back(parameter);
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

std::vector<ParameterUse> ModelChunk::uses() const {
  std::vector<ParameterUse> list;
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const auto& segment : layers[i].segments) {
      for (const Parameter* parameter : segment->parameters())
        list.emplace_back(parameter, static_cast<int>(i));
    }
  }
  return list;
}

Model::Model(ModelConfig config, std::unique_ptr<RotaryTables> rotary,
             std::vector<ModelChunk> chunks)
    : config_(std::move(config)), rotary_(std::move(rotary)), chunks_(std::move(chunks)) {}

std::vector<const Parameter*> Model::parameters() const {
  std::vector<const Parameter*> list;
  for (const ModelChunk& chunk : chunks_) append_new(list, chunk.parameters());
  return list;
}

std::vector<std::vector<ParameterUse>> Model::uses() const {
  std::vector<std::vector<ParameterUse>> list;
  for (const ModelChunk& chunk : chunks_) list.push_back(chunk.uses());
  return list;
}

int Model::segments(size_t chunk) const {
  size_t count = 0;
  for (const Layer& layer : chunks_[chunk].layers) count += layer.segments.size();
  return static_cast<int>(count);
}

ChunkTurns Model::turns(size_t chunk) const {
  ChunkTurns turns{.ends_with_head = chunks_[chunk].head != nullptr};
  int number = 0;
  for (const Layer& layer : chunks_[chunk].layers) {
    for (const auto& segment : layer.segments) {
      if (segment->exchange_part() == ExchangePart::second) turns.places.push_back(number);
      ++number;
    }
  }
  return turns;
}

SegmentRange Model::before_head(size_t chunk) const {
  return chunks_[chunk].head == nullptr ? SegmentRange{} : kAllButLastSegment;
}

Edge Model::edge_from(size_t chunk, const RankContext& context, const Batch& batch) const {
  const ModelChunk& held = chunks_[chunk];
  Edge edge = held.after ? held.after(context, batch) : Edge();
  std::sort(edge.begin(), edge.end(),
            [](const EdgeTensor& a, const EdgeTensor& b) { return a.name < b.name; });
  return edge;
}

Edge Model::edge_into(size_t chunk, const RankContext& context, const Batch& batch) const {
  Edge edge = edge_from(chunk, context, batch);
  for (const Layer& layer : std::views::reverse(chunks_[chunk].layers)) {
    for (const auto& segment : std::views::reverse(layer.segments))
      edge = edge_before(layer, *segment, context, layer.rows_of(batch), edge);
  }
  return edge;
}

}  // namespace viaduct
