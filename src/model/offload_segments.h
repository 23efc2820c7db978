#pragma once
// When what offloaded units keep leaves the device and comes back: fixed points of the program,
// whenever copies are complete.

#include "model/segment_hooks.h"

namespace viaduct {

/// What a segment keeps starts to leave when its forward ends, beside the forward of the next
/// segment, after which its memory is given up; it starts to come back one segment ahead of its
/// backward. A range of segments gives up and asks for what it has at its ends at once.
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
