#include "device/device_graph.h"

#include <exception>

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"

namespace viaduct {
namespace {

/// The contents of a captured program according to its record. DeviceError if it holds other memory
/// at its end than at its beginning: when the graph runs again, that memory would belong to another
/// program.
DeviceGraph::Totals totals_of(const StepRecord& record) {
  for (const AllocationRecord& a : record.allocations()) {
    VIADUCT_CHECK(DeviceError, a.released_at >= 0,
                  "graph: the captured program holds {} bytes ({}) at its end that it did not hold "
                  "before",
                  a.bytes, a.tag);
  }
  VIADUCT_CHECK(DeviceError, record.older_releases().empty(),
                "graph: the captured program frees {} bytes ({}) that were there before it",
                record.older_releases().front().bytes, record.older_releases().front().tag);
  DeviceGraph::Totals totals;
  for (const OpEntryRecord& op : record.ops()) {
    totals.cost += op.cost;
    totals.launches += op.launches;
  }
  totals.collectives = record.collectives();
  const StepRecord::Peak peak = record.peak();
  totals.peak_bytes = peak.bytes;
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    const auto found =
        peak.bytes_by_tag.find(std::string(memory_tag_name(static_cast<MemoryTag>(tag))));
    if (found != peak.bytes_by_tag.end())
      totals.peak_bytes_by_tag[static_cast<size_t>(tag)] = found->second;
  }
  return totals;
}

}  // namespace

void Device::begin_capture() {
  fail<DeviceError>("graph: this device runs its work immediately and records none");
}

std::unique_ptr<DeviceGraph> Device::end_capture(bool) {
  return nullptr;
}

void Device::enqueue_graph(const DeviceGraph&) {
  fail<DeviceError>("graph: this device has no graphs");
}

std::vector<int> Device::used_streams() const {
  std::vector<int> used;
  for (int stream = kComputeStream + 1; stream < order_.count(); ++stream)
    if (order_.position(stream) > 0) used.push_back(stream);
  return used;
}

void Device::join(const std::vector<int>& streams) {
  for (const int stream : streams) wait(kComputeStream, record_event(stream));
}

void Device::fork(const std::vector<int>& streams) {
  for (const int stream : streams) wait(stream, record_event(kComputeStream));
}

std::unique_ptr<DeviceGraph> Device::capture(FunctionRef<void()> program) {
  // Everything before the graph is behind compute, so nothing in it waits for what is outside.
  const std::vector<int> streams = used_streams();
  join(streams);
  begin_capture();
  StepRecord* const outer = record_;
  StepRecord record;
  std::unique_ptr<DeviceGraph> graph;
  set_record(&record);
  try {
    launched(kComputeStream);  // so that a stream that has waited for compute does so again
    fork(streams);
    program();
    const std::vector<int> all = used_streams();
    for (const int stream : all) launched(stream);  // likewise compute
    join(all);
    const DeviceGraph::Totals totals = totals_of(record);
    graph = end_capture(true);
    graph->totals = totals;
  } catch (...) {
    set_record(outer);
    end_capture(false);
    throw;
  }
  set_record(outer);
  return graph;
}

void Device::launch(const DeviceGraph& graph) {
  const std::vector<int> streams = used_streams();
  join(streams);
  OpEntryRecord entry{.op = "graph", .kernel = "captured work", .cost = graph.totals.cost};
  entry.stream_position = launched(kComputeStream);
  entry.begin_seconds = steady_seconds();
  enqueue_graph(graph);
  entry.end_seconds = steady_seconds();
  fork(streams);
  const DeviceGraph::Totals& totals = graph.totals;
  if (memory_.bytes_in_use + totals.peak_bytes > memory_.peak_bytes) {
    memory_.peak_bytes = memory_.bytes_in_use + totals.peak_bytes;
    memory_.peak_bytes_by_tag = memory_.bytes_by_tag;
    memory_.peak_bytes_by_tag.resize(kMemoryTags);
    for (size_t tag = 0; tag < kMemoryTags; ++tag)
      memory_.peak_bytes_by_tag[tag] += totals.peak_bytes_by_tag[tag];
  }
  if (record_ == nullptr) return;
  // Nobody waits for one of them alone.
  for (CollectiveRecord one : totals.collectives) {
    one.launch_seconds = entry.begin_seconds;
    const double end = entry.end_seconds;
    record_->complete(record_->launch(std::move(one)), end, end, 0);
  }
  record_->op(std::move(entry));
}

}  // namespace viaduct
