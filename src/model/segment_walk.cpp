#include "model/segment_walk.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "base/error.h"
#include "model/segment_edges.h"
#include "model/stream_share.h"
#include "nn/encoder_rows.h"

namespace viaduct {
namespace {

/// Calls the hooks around a segment.
class Told {
 public:
  Told(SegmentHookList hooks, const SegmentEvent& event) : hooks_(hooks), event_(event) {
    try {
      for (; told_ < hooks_.size(); ++told_) hooks_[told_]->before(event_);
    } catch (...) {
      fail();
      throw;
    }
  }
  ~Told() { fail(); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  void done(const TensorSet& out) {
    for (; told_ > 0; --told_) hooks_[told_ - 1]->after(event_, out);
  }

 private:
  void fail() noexcept {
    for (; told_ > 0; --told_) hooks_[told_ - 1]->failed(event_);
  }

  SegmentHookList hooks_;
  const SegmentEvent& event_;
  size_t told_ = 0;  // hooks that wait for the end
};

}  // namespace

/// A segment, its layer, and its index in the chunk.
struct SegmentWalk::Place {
  const Layer* layer = nullptr;
  Segment* segment = nullptr;
  int number = 0;

  /// What the segment gets of the micro-batch.
  const Batch& batch(const Batch& micro_batch) const { return layer->rows_of(micro_batch); }
};

/// Everything that a walk runs, and how much of it has begun.
struct SegmentWalk::Program {
  std::vector<ComingSegment> segments;
  size_t begun = 0;

  std::span<const ComingSegment> coming() const { return std::span(segments).subspan(begun); }
};

/// In the order of the forward.
std::vector<SegmentWalk::Place> SegmentWalk::places() const {
  std::vector<Place> all;
  for (const Layer& layer : chunk_.layers) {
    for (const auto& segment : layer.segments)
      all.push_back({&layer, segment.get(), static_cast<int>(all.size())});
  }
  return all;
}

/// Those that `range` names.
std::vector<SegmentWalk::Place> SegmentWalk::places(const SegmentRange& range) const {
  const std::vector<Place> all = places();
  const auto [begin, end] = range.among(static_cast<int>(all.size()));
  return {all.begin() + begin, all.begin() + end};
}

/// All segments that are recomputed with the one at `place`.
std::vector<SegmentWalk::Place> SegmentWalk::places_with(const Place& place) const {
  const LayerGroup& group = *group_of(place);
  if (group.apart) return {place};
  std::vector<Place> list;
  std::set<int64_t> blocks;
  for (const Place& other : places()) {
    if (group_of(other) != &group) continue;
    list.push_back(other);
    blocks.insert(other.layer->block);
  }
  VIADUCT_CHECK(
      ShapeError, static_cast<int64_t>(blocks.size()) == group.blocks,
      "backward: blocks {} to {} are recomputed together, but {} of them are in the chunk",
      group.first_block, group.first_block + group.blocks - 1, blocks.size());
  return list;
}

/// The group of layers that the place is recomputed with; null: it is not recomputed.
const LayerGroup* SegmentWalk::group_of(const Place& place) const {
  if (saved_.policy() == nullptr) return nullptr;
  const LayerGroup* group = saved_.policy()->group_of(place.layer->block);
  const bool of_it = group == nullptr || !group->experts || place.layer->in_experts(*place.segment);
  return of_it ? group : nullptr;
}

/// The segment's place, as the store names it.
SegmentRun SegmentWalk::segment_run(const Place& place) const {
  SegmentRun run{.instance = place.number, .block = place.layer->block};
  if (const LayerGroup* group = group_of(place)) {
    const bool ends = place.layer->block + 1 == group->first_block + group->blocks &&
                      place.segment == place.layer->segments.back().get();
    run.drops = true, run.drops_output = !ends && !group->apart;
  }
  return run;
}

/// Whether a recomputed group begins with the place.
bool SegmentWalk::begins_group(const Place& place) const {
  const LayerGroup* group = group_of(place);
  if (group == nullptr || group->apart) return group != nullptr;
  const auto first = static_cast<size_t>(group->experts ? place.layer->first_of_experts : 0);
  return place.layer->block == group->first_block &&
         place.segment == place.layer->segments[first].get();
}

/// Segments that run again one after the other, for what they keep.
struct SegmentWalk::Again {
  Edge inputs;                   // what they read and none of them makes
  std::vector<SegmentRun> runs;  // of each segment, with the outputs that none of them reads
};

/// Backwards from the last segment, whose outputs nothing reads.
SegmentWalk::Again SegmentWalk::again(const std::vector<Place>& list) const {
  Again again;
  again.runs.resize(list.size());
  for (size_t i = list.size(); i-- > 0;) {
    const Segment& segment = *list[i].segment;
    SegmentRun& run = again.runs[i] = segment_run(list[i]);
    if (segment.exchange_part() == ExchangePart::first && i + 1 < list.size()) {
      // What it begins makes the outputs of the second part.
      run.unread = again.runs[i + 1].unread;
      run.output_unread = again.runs[i + 1].output_unread;
    } else {
      run.unread = unread_outputs(segment, again.inputs);
      run.output_unread = run.unread.size() == segment.outputs().size();
    }
    again.inputs = edge_before(*list[i].layer, segment, context_, list[i].batch(batch_),
                               again.inputs, !run.output_unread);
  }
  return again;
}

/// What the segments recomputed with `place` read and none of them makes.
Edge SegmentWalk::group_inputs(const Place& place) const {
  return again(places_with(place)).inputs;
}

/// Whether each tensor rank keeps only its share of the residual stream that a group reads.
bool SegmentWalk::is_shared(const EdgeTensor& tensor) const {
  return saved_.policy()->shares_layer_inputs() && tensor.name == kHidden &&
         context_.groups.tp().size() > 1 && !context_.settings.sequence_parallel;
}

/// Under the first layer of a group: its inputs, which are all that the group keeps.
void SegmentWalk::keep_group_inputs(const Place& first, const TensorSet& in) const {
  const SegmentScope scope(saved_, {.instance = first.number, .block = first.layer->block});
  const UnitScope unit(saved_, unit::layer);
  for (const EdgeTensor& tensor : group_inputs(first)) {
    const Tensor& whole = in.get(tensor.name);
    const Tensor kept = is_shared(tensor) ? own_share(context_, whole) : whole;
    // Slots of the second memory have fixed sizes and hold memory of the device.
    if (tensor.on_host || tensor.any_rows() || tensor.stays) {
      saved_.keep_here(first.layer, tensor.name, kept);
    } else {
      saved_.keep(first.layer, tensor.name, kept);
    }
  }
}

/// The context has the token indices of a micro-batch, and the ranks that share them, while its
/// segment runs, and keeps no batch between segments.
class TokenScope {
 public:
  TokenScope(RankContext& context, const Batch& batch) : context_(context) {
    context_.token_index = batch.token_index;
    context_.token_sharers = batch.context_ranks;
    context_.whole_stream = batch.whole_stream;
  }
  ~TokenScope() {
    context_.token_index = {};
    context_.token_sharers = nullptr;
    context_.whole_stream = false;
  }
  TokenScope(const TokenScope&) = delete;
  TokenScope& operator=(const TokenScope&) = delete;

 private:
  RankContext& context_;
};

/// Runs f between the hooks' `before` and `after`.
template <class F>
TensorSet SegmentWalk::run(const Place& place, SegmentWork work, int next, Program& program,
                           F&& f) const {
  ++program.begun;
  const TokenScope tokens(context_, place.batch(batch_));
  if (hooks_.empty()) return f();
  const SegmentEvent event{work, *place.layer,     *place.segment, place.number,
                           next, program.coming(), context_,       saved_};
  Told told(hooks_, event);
  TensorSet out = f();
  told.done(out);
  return out;
}

/// Whether the group of `place` is not recomputed yet: its inputs are kept.
bool SegmentWalk::waits(const Place& place) const {
  const Place first = places_with(place).front();
  const LayerReplayScope scope(saved_, segment_run(first));
  const Edge inputs = group_inputs(first);
  return std::ranges::all_of(
      inputs, [&](const EdgeTensor& tensor) { return saved_.has(first.layer, tensor.name); });
}

/// What a walk back through `list` runs, with the groups that wait before the first of their
/// segments.
SegmentWalk::Program SegmentWalk::program_backwards(const std::vector<Place>& list,
                                                    SegmentWork work) const {
  Program program;
  const LayerGroup* last = nullptr;
  for (const Place& place : std::views::reverse(list)) {
    const LayerGroup* group = group_of(place);
    if (group != nullptr && (group != last || group->apart) && waits(place)) {
      for (const Place& again : places_with(place))
        program.segments.push_back({again.segment, SegmentWork::replay});
    }
    last = group;
    program.segments.push_back({place.segment, work});
  }
  return program;
}

/// Recomputes the group of layers of `place`, unless that is done: its segments then have kept what
/// their backwards read.
void SegmentWalk::run_group_again(const Place& place, Program& program) const {
  if (group_of(place) == nullptr) return;
  const std::vector<Place> list = places_with(place);
  const Place& first = list.front();
  const Again group = again(list);
  TensorSet set;
  {
    // Offloaded inputs are fetched here.
    const BackwardScope scope(saved_, segment_run(first), context_, first.batch(batch_));
    for (const EdgeTensor& tensor : group.inputs) {
      if (!saved_.has(first.layer, tensor.name)) return;
      const Tensor kept = saved_.take(first.layer, tensor.name);
      set.set(tensor.name, is_shared(tensor) ? gather_shares(context_, kept, tensor) : kept);
    }
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const Place& own = list[i];
    const int next = i + 1 < list.size() ? list[i + 1].number : -1;
    set = run(own, SegmentWork::replay, next, program, [&] {
      const LayerReplayScope replay(saved_, group.runs[i]);
      return forward_through(*own.layer, *own.segment, context_, own.batch(batch_), set, saved_);
    });
  }
}

/// Calls f with segments of a chunk, last first; what was dropped is there again.
template <class F>
void SegmentWalk::for_each_backwards(SegmentRange range, SegmentWork work, F&& f) const {
  const std::vector<Place> list = places(range);
  Program program = program_backwards(list, work);
  for (size_t left = list.size(); left > 0; --left) {
    const Place& place = list[left - 1];
    run_group_again(place, program);
    f(place, work, left > 1 ? list[left - 2].number : -1, program);
  }
}

TensorSet SegmentWalk::forward(SegmentRange range, TensorSet in) const {
  TensorSet set = std::move(in);
  std::vector<Place> list = places(range);
  if (context_.gradients == nullptr)
    std::erase_if(list, [](const Place& place) { return place.layer->training_only; });
  // Generation keeps what the decoder reads of an encoder's output.
  if (batch_.encoder != nullptr && !batch_.encoder->encodes())
    std::erase_if(list, [](const Place& place) { return place.layer->of_encoder; });
  Program program;
  for (const Place& place : list) program.segments.push_back({place.segment, SegmentWork::forward});
  for (size_t i = 0; i < list.size(); ++i) {
    const Place& place = list[i];
    const int next = i + 1 < list.size() ? list[i + 1].number : -1;
    set = run(place, SegmentWork::forward, next, program, [&] {
      if (begins_group(place)) keep_group_inputs(place, set);
      const SegmentScope segment(saved_, segment_run(place));
      return forward_through(*place.layer, *place.segment, context_, place.batch(batch_), set,
                             saved_);
    });
  }
  return set;
}

TensorSet SegmentWalk::backward(SegmentRange range, TensorSet d_out, SegmentWork work) const {
  for_each_backwards(
      range, work, [&](const Place& place, SegmentWork half, int next, Program& program) {
        d_out = run(place, half, next, program, [&] {
          const Batch& batch = place.batch(batch_);
          const BackwardScope backward(saved_, segment_run(place), context_, batch);
          Segment& segment = *place.segment;
          return backward_through(*place.layer, segment, context_, batch, d_out,
                                  [&](const TensorSet& d) {
                                    return half == SegmentWork::backward
                                               ? segment.backward(context_, batch, d, saved_)
                                               : segment.backward_input(context_, batch, d, saved_);
                                  });
        });
      });
  return d_out;
}

void SegmentWalk::backward_weight(SegmentRange range) const {
  for_each_backwards(range, SegmentWork::backward_weight,
                     [&](const Place& place, SegmentWork half, int next, Program& program) {
                       run(place, half, next, program, [&] {
                         const Batch& batch = place.batch(batch_);
                         const BackwardScope backward(saved_, segment_run(place), context_, batch);
                         place.segment->backward_weight(context_, batch, saved_);
                         return TensorSet();
                       });
                     });
}

}  // namespace viaduct
