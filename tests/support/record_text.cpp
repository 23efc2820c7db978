#include "support/record_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace viaduct::test {

std::string cost_text(const Cost& cost) {
  return fmt::format("{} operations, {} and {} bytes", fmt::join(cost.flops, " + "),
                     cost.bytes_read, cost.bytes_written);
}

std::vector<std::string> record_entries(const StepRecord& record) {
  std::vector<std::string> list;
  for (const OpEntryRecord& e : record.ops())
    list.push_back(
        fmt::format("{}: {} by {}, {} launches{}, {}, workspace {}, {}, scope {}, {} of {}", e.at,
                    e.op, e.kernel, e.launches, e.in_graph ? " in a graph" : "", cost_text(e.cost),
                    e.workspace_bytes, e.shapes, e.scope, e.stream_position, e.stream));
  const int64_t first = record.allocations().empty() ? 0 : record.allocations().front().id;
  for (const AllocationRecord& e : record.allocations())
    list.push_back(fmt::format("{} to {}: {} bytes of {}, number {}, scope {}", e.allocated_at,
                               e.released_at, e.bytes, e.tag, e.id - first, e.scope));
  for (const ScopeRecord& e : record.scopes())
    list.push_back(fmt::format("{} to {}: {} {} in {}, micro-batch {}, chunk {}", e.begin_at,
                               e.end_at, static_cast<int>(e.kind), e.name, e.parent, e.micro_batch,
                               e.chunk));
  for (const CollectiveRecord& e : record.collectives())
    list.push_back(fmt::format(
        "{} to {}: {} {} of {} ({} ranks, place {} of {}) with {}, {} bytes, {} sent, number {}, "
        "messages {}, scope {}, queue {}, stream {} at {}, host {}",
        e.launched_at, e.completed_at, choice_name(e.operation), choice_name_or(e.flow, ""),
        e.group, e.ranks, e.place, e.members->text(), e.peer, e.bytes, e.wire_bytes, e.sequence,
        e.message_group, e.scope, e.queue, e.stream, e.stream_position, e.blocks_host));
  for (const HostReadRecord& e : record.host_reads())
    list.push_back(
        fmt::format("{}: {}, scope {}, after {}", e.at, e.reason, e.scope, e.stream_position));
  for (const HostCallRecord& e : record.host_calls())
    list.push_back(fmt::format("{} to {}: {} of {} ({}), place {}, number {}, {} bytes, scope {}",
                               e.posted_at, e.wait_at, e.what, e.group, e.members->text(), e.place,
                               e.sequence, e.bytes, e.scope));
  for (const StreamEdgeRecord& e : record.edges())
    list.push_back(fmt::format("{} of stream {} after {} of stream {}", e.to_position, e.to_stream,
                               e.from_position, e.from_stream));
  list.push_back(fmt::format("{} positions, {} edges, {} older releases", record.position(),
                             record.edges().size(), record.older_releases().size()));
  return list;
}

std::string difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string mine = i < a.size() ? a[i] : "nothing",
                      other = i < b.size() ? b[i] : "nothing";
    if (mine != other) return mine + "\n  not\n" + other;
  }
  return "";
}

}  // namespace viaduct::test
