#include "timeline/memory_history.h"

#include <algorithm>

#include "base/json.h"

namespace viaduct {

std::string memory_history(const StepRecord& record, const MemoryHistorySettings& settings) {
  using Json = nlohmann::ordered_json;
  const StepRecord::Peak peak = record.peak();
  std::vector<const AllocationRecord*> order;
  for (const AllocationRecord& a : record.allocations()) order.push_back(&a);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->allocated_at < b->allocated_at; });
  std::string lines;
  for (const AllocationRecord* a : order) {
    const bool released = a->released_at >= 0;
    const bool at_peak = a->allocated_at <= peak.at && (!released || a->released_at > peak.at);
    const Json line{{"bytes", a->bytes},
                    {"tag", a->tag},
                    {"owner", record.scope_path(a->scope)},
                    {"allocated_at", a->allocated_at},
                    {"released_at", released ? Json(a->released_at) : Json(nullptr)},
                    {"allocated_seconds", a->allocated_seconds - settings.from_seconds},
                    {"released_seconds",
                     released ? Json(a->released_seconds - settings.from_seconds) : Json(nullptr)},
                    {"at_peak", at_peak}};
    lines +=
        (lines.empty() ? "" : ",\n") + line.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const Json head{{"rank", settings.rank},
                  {"first_step", settings.first_step},
                  {"last_step", settings.last_step},
                  {"peak_bytes", peak.bytes},
                  {"peak_bytes_by_tag", peak.bytes_by_tag}};
  std::string text = head.dump();
  text.pop_back();  // the brace that closes it
  return text + ",\"allocations\":[\n" + lines + "\n]}\n";
}

}  // namespace viaduct
