// The trace and the memory history are JSON with the content of the record.

#include "timeline/chrome_trace.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "timeline/memory_history.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

void collective(StepRecord& record, const std::string& group, double launch, double wait,
                double complete) {
  CollectiveRecord c;
  c.operation = Collective::all_reduce, c.group = group, c.ranks = 2, c.bytes = 64,
  c.wire_bytes = 64;
  c.launch_seconds = launch;
  record.complete(record.launch(c), wait, complete, 0.25);
}

/// Everything that a step can record, at known times.
struct Example {
  StepRecord record;
  TraceSettings settings;

  Example() {
    record.allocate(1, 1000, "weights");
    op("before", 1, 2);
    settings.rank = 3;
    settings.process = "rank 3";
    settings.from = record.position();
    settings.from_seconds = 10;
    settings.held_bytes = {{"weights", 1000}, {"moments", 500}};
    settings.peaks.flops_per_second[static_cast<size_t>(FlopFormat::f32)] = 100;
    settings.peaks.bytes_per_second = 100;
    const RecordScope step(&record, ScopeKind::step, "step 1");
    const RecordScope phase(&record, ScopeKind::phase, "forward", {}, 4, 1);
    record.allocate(2, 64, "saved");
    op("gemm", 11, 15);
    record.release(2, 64, "saved");
    record.release(99, 500, "moments");
    collective(record, "tp", 16, 18, 19);
    collective(record, "tp", 17, 19, 20);
    collective(record, "dp", 17, 20, 21);
    record.release(1, 1000, "weights");
  }
  void op(const char* name, double begin, double end) {
    OpEntryRecord entry;
    entry.op = name, entry.kernel = "tiles_avx2", entry.shapes = "f32 [2, 3]";
    entry.cost.flops[static_cast<size_t>(FlopFormat::f32)] = 200;
    entry.cost.bytes_read = 40;
    entry.begin_seconds = begin, entry.end_seconds = end;
    record.op(entry);
  }
};

std::vector<Json> events(const Json& trace, const std::string& type, const std::string& name = "") {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == type && (name.empty() || event["name"] == name)) found.push_back(event);
  }
  return found;
}

TEST(ChromeTrace, OpsHaveKernelShapesCostAndFraction) {
  const Example example;
  const Json trace = Json::parse(chrome_trace(example.record, example.settings));
  EXPECT_TRUE(events(trace, "X", "before").empty()) << "it ran before the window";
  ASSERT_EQ(events(trace, "X", "gemm").size(), 1u);
  const Json gemm = events(trace, "X", "gemm")[0];
  EXPECT_EQ(gemm["pid"], 3);
  EXPECT_EQ(gemm["ts"], 1e6);
  EXPECT_EQ(gemm["dur"], 4e6);
  EXPECT_EQ(gemm["args"]["kernel"], "tiles_avx2");
  EXPECT_EQ(gemm["args"]["operands"], "f32 [2, 3]");
  EXPECT_EQ(gemm["args"]["flops"], 200);
  EXPECT_EQ(gemm["args"]["bytes_read"], 40);
  EXPECT_EQ(gemm["args"]["roofline_fraction"], 0.5);
}

TEST(ChromeTrace, CollectivesThatOverlapHaveTracksOfTheirOwn) {
  const Example example;
  const Json trace = Json::parse(chrome_trace(example.record, example.settings));
  const auto all = events(trace, "X", "all_reduce");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["ts"], 6e6);
  EXPECT_EQ(all[0]["dur"], 3e6) << "from launch to completion";
  EXPECT_EQ(all[0]["args"]["group"], "tp");
  EXPECT_EQ(all[0]["args"]["bytes"], 64);
  EXPECT_EQ(all[0]["args"]["exposed_seconds"], 1);
  EXPECT_EQ(all[0]["args"]["launched_in"], "step 1/forward");
  std::set<int> tracks;
  for (const Json& slice : all) tracks.insert(slice["tid"].get<int>());
  EXPECT_EQ(tracks.size(), 3u);
  EXPECT_EQ(events(trace, "X", "wait for all_reduce tp").size(), 2u);
  EXPECT_EQ(events(trace, "s").size(), 3u);
  EXPECT_EQ(events(trace, "f").size(), 3u);
  std::set<std::string> names;
  for (const Json& event : events(trace, "M", "thread_name")) names.insert(event["args"]["name"]);
  EXPECT_EQ(names, (std::set<std::string>{"host and compute", "communication tp",
                                          "communication tp (2)", "communication dp"}));
}

TEST(ChromeTrace, TheMemoryCurveStartsWithWhatIsHeld) {
  const Example example;
  const Json trace = Json::parse(chrome_trace(example.record, example.settings));
  const auto curve = events(trace, "C", "memory");
  const auto sum = [](const Json& counter) {
    int64_t bytes = 0;
    for (const auto& [tag, held] : counter["args"].items()) bytes += held.get<int64_t>();
    return bytes;
  };
  ASSERT_EQ(curve.size(), 5u);
  EXPECT_EQ(sum(curve[0]), 1500);
  EXPECT_EQ(sum(curve[1]), 1564);
  EXPECT_EQ(sum(curve[2]), 1500);
  EXPECT_EQ(sum(curve[3]), 1000) << "held since before the record";
  EXPECT_EQ(sum(curve[4]), 0) << "recorded, but before the window";
}

TEST(ChromeTrace, PhasesNameTheirMicroBatch) {
  const Example example;
  const Json trace = Json::parse(chrome_trace(example.record, example.settings));
  const auto phases = events(trace, "X", "forward 4");
  ASSERT_EQ(phases.size(), 1u);
  EXPECT_EQ(phases[0]["args"]["chunk"], 1);
}

TEST(MemoryHistory, HasEveryAllocation) {
  Example example;
  example.record.allocate(5, 32, "other");
  MemoryHistorySettings settings;
  settings.rank = 3, settings.first_step = 1, settings.last_step = 2;
  const Json history = Json::parse(memory_history(example.record, settings));
  EXPECT_EQ(history["rank"], 3);
  EXPECT_EQ(history["last_step"], 2);
  EXPECT_EQ(history["peak_bytes"], 1064);
  EXPECT_EQ(history["peak_bytes_by_tag"]["saved"], 64);
  ASSERT_EQ(history["allocations"].size(), 3u);
  int64_t at_peak = 0;
  for (const Json& a : history["allocations"]) {
    if (a["at_peak"]) at_peak += a["bytes"].get<int64_t>();
  }
  EXPECT_EQ(at_peak, 1064);
  EXPECT_EQ(history["allocations"][1]["owner"], "step 1/forward");
  EXPECT_GT(history["allocations"][1]["released_at"], history["allocations"][1]["allocated_at"]);
  EXPECT_TRUE(history["allocations"][2]["released_at"].is_null());
}

}  // namespace
}  // namespace viaduct
