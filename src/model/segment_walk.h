#pragma once
// The walk through the segments of a chunk, forwards and backwards, over a range of them.
// Everything that runs a micro-batch (training, evaluation, probe, generation) runs this walk. It
// recomputes the layers that the policy names, calls the hooks, and lets tensors bypass segments
// that do not name them.

#include "model/model_chunk.h"
#include "model/segment_hooks.h"
#include "pipeline/action.h"

namespace viaduct {

class SegmentWalk {
 public:
  /// Of one micro-batch; all references outlive the walk.
  SegmentWalk(const ModelChunk& chunk, RankContext& context, const Batch& batch, SavedStore& saved,
              SegmentHookList hooks = {})
      : chunk_(chunk), context_(context), batch_(batch), saved_(saved), hooks_(hooks) {}

  // CommError for a range that the chunk does not have; ShapeError as forward_through and
  // backward_through.

  /// `in` is empty where the range begins with the embedding; the result is empty where it ends
  /// with the head, which adds the micro-batch's losses to context.loss_state.
  TensorSet forward(SegmentRange range, TensorSet in) const;
  /// The backward of what `forward` kept: `d_out` is the gradient of what the forward returned, the
  /// result that of its input. `work`: backward, or backward_input, so that weight gradients may
  /// come later.
  TensorSet backward(SegmentRange range, TensorSet d_out, SegmentWork work) const;
  void backward_weight(SegmentRange range) const;

 private:
  struct Place;
  struct Program;
  struct Again;
  std::vector<Place> places() const;
  std::vector<Place> places(const SegmentRange& range) const;
  std::vector<Place> places_with(const Place& place) const;
  const LayerGroup* group_of(const Place& place) const;
  SegmentRun segment_run(const Place& place) const;
  bool begins_group(const Place& place) const;
  Again again(const std::vector<Place>& list) const;
  Edge group_inputs(const Place& place) const;
  bool is_shared(const EdgeTensor& tensor) const;
  void keep_group_inputs(const Place& first, const TensorSet& in) const;
  bool waits(const Place& place) const;
  Program program_backwards(const std::vector<Place>& list, SegmentWork work) const;
  void run_group_again(const Place& place, Program& program) const;
  template <class F>
  TensorSet run(const Place& place, SegmentWork work, int next, Program& program, F&& f) const;
  template <class F>
  void for_each_backwards(SegmentRange range, SegmentWork work, F&& f) const;

  const ModelChunk& chunk_;
  RankContext& context_;
  const Batch& batch_;
  SavedStore& saved_;
  SegmentHookList hooks_;
};

}  // namespace viaduct
