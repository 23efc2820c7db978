#pragma once
// Hooks of a walk through segments: called before and after each of them, while the segments do not
// know of them. The record of the step, the saved store's fetches ahead, and probes of a layer's
// output are hooks.

#include <span>

#include "nn/segment.h"

namespace viaduct {

enum class SegmentWork {
  forward,
  backward,  // both halves
  backward_input,
  backward_weight,
  replay,  // the forward of a recomputed layer, before the first of its backwards
};

/// A segment that a walk is going to run.
struct ComingSegment {
  const Segment* segment = nullptr;
  SegmentWork work = SegmentWork::forward;
};

/// A segment that runs now.
struct SegmentEvent {
  SegmentWork work = SegmentWork::forward;
  const Layer& layer;
  const Segment& segment;
  int number = 0;  // of the segment in its chunk: SegmentRun::instance
  int next = -1;   // the same for the segment that this walk runs next; −1: it is the last one
  /// Everything that the same walk runs after it, recomputed layers included, in this order.
  std::span<const ComingSegment> coming;
  RankContext& context;
  SavedStore& saved;

  bool ends_layer() const { return &segment == layer.segments.back().get(); }
};

/// Events do not nest: layers are recomputed before the segment whose backward needs them.
class SegmentHooks {
 public:
  virtual ~SegmentHooks() = default;
  virtual void before(const SegmentEvent& event) { static_cast<void>(event); }
  /// `out`: all tensors that leave this point, including those that bypass the segment; empty after
  /// a backward_weight.
  virtual void after(const SegmentEvent& event, const TensorSet& out) {
    static_cast<void>(event), static_cast<void>(out);
  }
  /// Instead of `after` where the segment, or another hook, threw.
  virtual void failed(const SegmentEvent& event) noexcept { static_cast<void>(event); }
};

/// The hooks: called in this order before a segment, in the opposite order after it.
using SegmentHookList = std::span<SegmentHooks* const>;

}  // namespace viaduct
