#include "timeline/chrome_trace.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHost = 0;  // track of steps, phases, ops and waits

/// The events so far, and the clock of the trace.
class Trace {
 public:
  explicit Trace(const TraceSettings& settings) : settings_(settings) {
    metadata("process_name", kHost, settings.process);
    track("host and compute");
  }

  /// A track with its own name; returns its number.
  int track(const std::string& name) {
    metadata("thread_name", tracks_, name);
    return tracks_++;
  }

  /// Rounded to whole nanoseconds before subtractions, so that nested slices stay nested.
  int64_t nanoseconds(double seconds) const {
    return std::max<int64_t>(0, std::llround((seconds - settings_.from_seconds) * 1e9));
  }

  void slice(int track, const std::string& name, const char* category, double begin, double end,
             Json arguments) {
    const int64_t from = nanoseconds(begin);
    Json event = head("X", name, track, from);
    event["cat"] = category;
    event["dur"] = static_cast<double>(nanoseconds(end) - from) / 1e3;
    event["args"] = std::move(arguments);
    add(event);
  }

  void arrow(int64_t id, int from_track, double from, int to_track, double to) {
    for (const bool end : {false, true}) {
      Json event = head(end ? "f" : "s", "completes", end ? to_track : from_track,
                        nanoseconds(end ? to : from));
      event["cat"] = "communication";
      event["id"] = id;
      if (end) event["bp"] = "e";  // ends in the slice around it
      add(event);
    }
  }

  void counter(const std::string& name, double seconds,
               const std::map<std::string, int64_t>& values) {
    Json event = head("C", name, kHost, nanoseconds(seconds));
    event["args"] = values;
    add(event);
  }

  std::string finish() && {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n";
  }

 private:
  Json head(const char* type, const std::string& name, int track, int64_t at) const {
    return {{"ph", type},
            {"name", name},
            {"pid", settings_.rank},
            {"tid", track},
            {"ts", static_cast<double>(at) / 1e3}};
  }
  void metadata(const char* what, int track, const std::string& name) {
    add({{"ph", "M"},
         {"name", what},
         {"pid", settings_.rank},
         {"tid", track},
         {"args", {{"name", name}}}});
  }
  void add(const Json& event) {
    if (!events_.empty()) events_ += ",\n";
    events_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  const TraceSettings& settings_;
  std::string events_;
  int tracks_ = 0;
};

void add_scopes(Trace& trace, const StepRecord& record, const TraceSettings& settings) {
  static constexpr const char* kCategories[] = {"step", "phase", "segment"};
  for (const ScopeRecord& scope : record.scopes()) {
    if (scope.begin_at < settings.from || scope.end_at < 0) continue;
    Json arguments = Json::object();
    std::string name = scope.name;
    if (scope.micro_batch >= 0) {
      arguments["micro_batch"] = scope.micro_batch;
      name += " " + std::to_string(scope.micro_batch);
    }
    if (scope.chunk >= 0) arguments["chunk"] = scope.chunk;
    trace.slice(kHost, name, kCategories[static_cast<size_t>(scope.kind)], scope.begin_seconds,
                scope.end_seconds, std::move(arguments));
  }
}

void add_ops(Trace& trace, const StepRecord& record, const TraceSettings& settings) {
  for (const OpEntryRecord& op : record.ops()) {
    if (op.at < settings.from) continue;
    Json arguments{{"kernel", op.kernel}};
    if (!op.shapes.empty()) arguments["operands"] = op.shapes;
    arguments["flops"] = op.cost.total_flops();
    arguments["bytes_read"] = op.cost.bytes_read;
    arguments["bytes_written"] = op.cost.bytes_written;
    arguments["workspace_bytes"] = op.workspace_bytes;
    arguments["launches"] = op.launches;
    const double seconds = op.end_seconds - op.begin_seconds;
    const double least = roofline_seconds(op.cost, settings.peaks);
    if (least > 0 && seconds > 0) arguments["roofline_fraction"] = least / seconds;
    trace.slice(kHost, std::string(op.op), "op", op.begin_seconds, op.end_seconds,
                std::move(arguments));
  }
}

/// Tracks of one group, each with the time at which its last slice ends.
using Lanes = std::vector<std::pair<int, double>>;

int free_lane(Trace& trace, Lanes& lanes, const std::string& group, double begin, double end) {
  for (auto& [track, busy_until] : lanes) {
    if (trace.nanoseconds(begin) < trace.nanoseconds(busy_until)) continue;
    busy_until = end;
    return track;
  }
  const std::string number = lanes.empty() ? "" : " (" + std::to_string(lanes.size() + 1) + ")";
  lanes.emplace_back(trace.track("communication " + group + number), end);
  return lanes.back().first;
}

void add_collectives(Trace& trace, const StepRecord& record, const TraceSettings& settings) {
  std::map<std::string, Lanes> lanes;
  int64_t id = 0;
  for (const CollectiveRecord& c : record.collectives()) {
    if (c.launched_at < settings.from || c.completed_at < 0 || c.ranks == 1) continue;
    Json arguments{{"group", c.group},
                   {"ranks", c.ranks},
                   {"bytes", c.bytes},
                   {"wire_bytes", c.wire_bytes},
                   {"exposed_seconds", c.complete_seconds - c.wait_begin_seconds},
                   {"busy_seconds", c.busy_seconds},
                   {"sequence", c.sequence}};
    if (c.peer >= 0) arguments["peer"] = c.peer;
    if (c.scope >= 0) arguments["launched_in"] = record.scope_path(c.scope);
    const int track =
        free_lane(trace, lanes[c.group], c.group, c.launch_seconds, c.complete_seconds);
    const std::string operation(choice_name(c.operation));
    trace.slice(track, operation, "communication", c.launch_seconds, c.complete_seconds,
                std::move(arguments));
    trace.slice(kHost, "wait for " + operation + " " + c.group, "wait", c.wait_begin_seconds,
                c.complete_seconds, Json::object());
    trace.arrow(id++, track, c.launch_seconds, kHost, c.complete_seconds);
  }
}

void add_memory(Trace& trace, const StepRecord& record, const TraceSettings& settings) {
  struct Change {
    int64_t at;
    double seconds;
    std::string_view tag;
    int64_t bytes;
  };
  std::vector<Change> changes;
  for (const AllocationRecord& a : record.allocations()) {
    if (a.allocated_at >= settings.from)
      changes.push_back({a.allocated_at, a.allocated_seconds, a.tag, a.bytes});
    if (a.released_at >= settings.from)
      changes.push_back({a.released_at, a.released_seconds, a.tag, -a.bytes});
  }
  for (const OlderReleaseRecord& r : record.older_releases()) {
    if (r.at >= settings.from) changes.push_back({r.at, r.seconds, r.tag, -r.bytes});
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  std::map<std::string, int64_t> held = settings.held_bytes;
  trace.counter("memory", settings.from_seconds, held);
  for (const Change& change : changes) {
    held[std::string(change.tag)] += change.bytes;
    trace.counter("memory", change.seconds, held);
  }
}

}  // namespace

std::string chrome_trace(const StepRecord& record, const TraceSettings& settings) {
  Trace trace(settings);
  add_scopes(trace, record, settings);
  add_ops(trace, record, settings);
  add_collectives(trace, record, settings);
  add_memory(trace, record, settings);
  return std::move(trace).finish();
}

}  // namespace viaduct
