#include "timeline/expanded_streams.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

int64_t& at(std::vector<int64_t>& work, size_t stream) {
  if (work.size() <= stream) work.resize(stream + 1);
  return work[stream];
}

}  // namespace

void ExpandedStreams::enter(const ExpandedEvent& first) {
  instance_ = first.instance, recorded_as_ = first.recorded_as;
  moves_ = skipped_;
  if (instance_ == nullptr) return;
  const ActionRecord& recorded = *recorded_as_;
  const size_t streams = std::max(instance_->work_begin.size(), recorded.work_end.size());
  for (size_t stream = 0; stream < streams; ++stream) {
    const int number = static_cast<int>(stream);
    const int64_t begin = work_of(recorded.work_begin, number);
    at(moves_, stream) += work_of(instance_->work_begin, number) - begin;
    const int64_t more = work_of(recorded.work_end, number) - begin;
    if (more == 0) continue;
    at(skipped_, stream) += more;
    if (steps_.size() <= stream) steps_.resize(stream + 1);
    steps_[stream].emplace_back(work_of(instance_->work_begin, number), skipped_[stream]);
  }
  of_instances_[{instance_->micro_batch, instance_->number}] = moves_;
}

void ExpandedStreams::given(int stream, int64_t position) {
  int64_t& work = at(given_, static_cast<size_t>(stream));
  work = std::max(work, position);
}

StreamEdgeRecord ExpandedStreams::moved(StreamEdgeRecord edge) {
  edge.from_position = source(edge);
  edge.to_position = place(edge.to_stream, edge.to_position);
  edge.latest = work_of(given_, edge.from_stream) == edge.from_position;
  given(edge.to_stream, edge.to_position);
  return edge;
}

int64_t ExpandedStreams::source(const StreamEdgeRecord& edge) const {
  // Either all that the stream was given so far, or a certain piece of work.
  const bool latest = edge.latest && !expansion_.awaits_operation(edge);
  if (instance_ != nullptr) return source_of_instance(edge, latest);
  if (latest) return edge.from_position + work_of(skipped_, edge.from_stream);
  const auto stream = static_cast<size_t>(edge.from_stream);
  if (stream >= steps_.size()) return edge.from_position;
  const auto& steps = steps_[stream];
  const auto beyond = std::partition_point(steps.begin(), steps.end(), [&](const auto& step) {
    return step.first < edge.from_position;
  });
  return edge.from_position + (beyond == steps.begin() ? 0 : std::prev(beyond)->second);
}

int64_t ExpandedStreams::source_of_instance(const StreamEdgeRecord& edge, bool latest) const {
  const int64_t before = work_of(recorded_as_->work_begin, edge.from_stream);
  if (edge.from_position > before || (latest && edge.from_position == before))
    return place(edge.from_stream, edge.from_position);
  const ActionRecord* gave = action_of_work(expansion_.ran(), edge.from_stream, edge.from_position);
  const auto found = gave == nullptr || gave->micro_batch != recorded_as_->micro_batch
                         ? of_instances_.end()
                         : of_instances_.find({instance_->micro_batch, gave->number});
  VIADUCT_CHECK(Error, found != of_instances_.end(),
                "expanding a record: a stream waits in micro-batch {} for work outside of it",
                recorded_as_->micro_batch);
  return edge.from_position + work_of(found->second, edge.from_stream);
}

}  // namespace viaduct
