#pragma once
// The points of the program at which saved tensors of offloaded units leave the device and return.
// They are fixed and do not depend on when copies complete.

#include "model/segment_hooks.h"

namespace viaduct {

/// A segment's saved tensors start to leave when its forward ends, in parallel with the forward of
/// the next segment, after which their memory is released; they start to return one segment before
/// its backward. At the ends of a range of segments, release and return are immediate.
class OffloadSegments final : public SegmentHooks {
 public:
  void before(const SegmentEvent& event) override {
    if (event.work == SegmentWork::forward || event.work == SegmentWork::replay) return;
    event.saved.fetch(event.number, event.context.ops);
    if (event.next >= 0) event.saved.fetch(event.next, event.context.ops);
  }
  void after(const SegmentEvent& event, const TensorSet&) override {
    if (event.work != SegmentWork::forward) return;
    event.saved.finish_offload();
    event.saved.start_offload(event.number);
    if (event.next < 0) event.saved.finish_offload();
  }
};

}  // namespace viaduct
