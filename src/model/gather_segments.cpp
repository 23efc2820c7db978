#include "model/gather_segments.h"

namespace viaduct {

void GatherSegments::before(const SegmentEvent& event) {
  weights_.gather(plan({&event.segment, event.work}, event.coming));
}

void GatherSegments::after(const SegmentEvent& event, const TensorSet&) {
  if (event.coming.empty()) {
    const bool turns = &event.segment == turn_ && event.work == SegmentWork::forward;
    if (!turns || !event.saved.keeps()) return weights_.keep_gathered({});
    return weights_.keep_gathered(plan({turn_, SegmentWork::backward}, {}));
  }
  weights_.keep_gathered(plan(event.coming.front(), event.coming.subspan(1)));
}

GatherPlan GatherSegments::plan(const ComingSegment& first, std::span<const ComingSegment> rest) {
  GatherPlan plan;
  for (const size_t unit : units(first)) weights_.plan_now(plan, unit);
  for (const ComingSegment& coming : rest) {
    for (const size_t unit : units(coming))
      if (!weights_.plan_ahead(plan, unit)) return plan;
  }
  return plan;
}

const std::vector<size_t>& GatherSegments::units(const ComingSegment& coming) {
  static const std::vector<size_t> kNone;
  if (coming.work == SegmentWork::backward_weight) return kNone;
  auto found = units_.find(coming.segment);
  if (found == units_.end()) {
    Units units;
    for (const Parameter* p : coming.segment->parameters())
      units.forward.push_back(store_.bucket_of(*p));
    for (const Parameter* p : coming.segment->read_backward())
      units.backward.push_back(store_.bucket_of(*p));
    found = units_.emplace(coming.segment, std::move(units)).first;
  }
  const bool backward =
      coming.work == SegmentWork::backward || coming.work == SegmentWork::backward_input;
  return backward ? found->second.backward : found->second.forward;
}

}  // namespace viaduct
