// `viaduct train` with section `profiling`: the files that it writes; tools can read them, and they
// agree with the metrics.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "base/json.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::json;

struct Finished {
  int status;
  std::string err;
};

Finished train(const TemporaryFolder& folder, const Overrides& overrides) {
  RunProcess process(viaduct_binary(), Overrides{"train"} + tiny_run() +
                                           Overrides{"checkpoint.save=" + (folder / "run").string(),
                                                     "train.train_iters=5"} +
                                           overrides);
  const int status = process.finish();
  return {status, process.err()};
}

Json parsed(const std::filesystem::path& file) {
  return Json::parse(read_file(file));
}

std::set<std::string> slices(const Json& trace, const std::string& category) {
  std::set<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == category) names.insert(event["name"]);
  }
  return names;
}

/// Slices of one track are disjoint or nested.
void expect_nested(const Json& trace) {
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> tracks;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int64_t begin = std::llround(event["ts"].get<double>() * 1e3);
    EXPECT_GE(event["dur"], 0);
    tracks[event["tid"]].emplace_back(begin,
                                      begin + std::llround(event["dur"].get<double>() * 1e3));
  }
  for (auto& [track, intervals] : tracks) {
    std::sort(intervals.begin(), intervals.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, -a.second) < std::pair(b.first, -b.second);
    });
    std::vector<int64_t> open;  // ends of the enclosing slices
    for (const auto& [begin, end] : intervals) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      if (!open.empty()) {
        ASSERT_LE(end, open.back()) << "track " << track;
      }
      open.push_back(end);
    }
  }
}

TEST(Profiling, ATraceOfTheChosenStepsAndRanks) {
  TemporaryFolder folder;
  const Finished run =
      train(folder, {"dist.ranks=2", "model.tensor_model_parallel_size=2", "profiling.trace=true",
                     "profiling.profile_step_start=2", "profiling.profile_step_end=4",
                     "profiling.profile_ranks=[1]", "profiling.record_shapes=true"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / "trace_rank_00000.json"));
  const auto file = folder / "run" / "trace_rank_00001.json";
  EXPECT_THAT(run.err, HasSubstr(file.string()));
  const Json trace = parsed(file);
  EXPECT_EQ(slices(trace, "step"), (std::set<std::string>{"step 3", "step 4"}));
  EXPECT_THAT(slices(trace, "phase"), testing::IsSupersetOf({"data 0", "forward 0", "forward 1",
                                                             "backward 1", "optimizer"}));
  EXPECT_THAT(slices(trace, "segment"),
              testing::IsSupersetOf({"embedding", "blocks.0.attention", "blocks.1.mlp", "head"}));
  EXPECT_THAT(slices(trace, "op"), testing::IsSupersetOf({"gemm", "norm_forward", "adamw"}));
  EXPECT_THAT(slices(trace, "communication"), testing::Contains("all_reduce"));
  EXPECT_THAT(slices(trace, "wait"), testing::Contains("wait for all_reduce tp"));
  expect_nested(trace);
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["name"] == "gemm") {
      EXPECT_THAT(event["args"]["operands"], HasSubstr("f32 ["));
      EXPECT_GT(event["args"]["flops"], 0);
      EXPECT_GT(event["args"]["roofline_fraction"], 0);
      break;
    }
  }
}

TEST(Profiling, TheMemoryHistoryAddsUpToTheMetrics) {
  TemporaryFolder folder;
  const auto snapshot = folder / "history" / "memory.json";
  const Finished run =
      train(folder, {"profiling.record_memory_history=true", "profiling.profile_step_start=1",
                     "profiling.profile_step_end=2",
                     "profiling.memory_snapshot_path=" + snapshot.string()});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / "trace_rank_00000.json"));
  const Json history = parsed(folder / "history" / "memory_rank_00000.json");
  EXPECT_EQ(history["first_step"], 2);
  EXPECT_EQ(history["last_step"], 2);
  const auto peaks = metric(folder / "run" / "metrics.jsonl", "peak_memory_bytes");
  EXPECT_EQ(history["peak_bytes"].get<double>(), peaks.back());
  int64_t sum = 0, held = 0;
  std::set<std::string> owners;
  for (const Json& a : history["allocations"]) {
    if (a["at_peak"]) sum += a["bytes"].get<int64_t>();
    held += a["released_at"].is_null() ? 1 : 0;
    owners.insert(a["owner"]);
  }
  EXPECT_EQ(sum, history["peak_bytes"]);
  EXPECT_GT(held, 0);
  EXPECT_THAT(owners, testing::IsSupersetOf({"setup", "step 2/forward/blocks.0.mlp",
                                             "step 2/backward/head", "step 2/data"}));
  for (const std::string& owner : owners)
    EXPECT_THAT(owner, testing::Not(HasSubstr("step 1"))) << "step 1 is forgotten";
}

TEST(Profiling, ARunThatEndsEarlyWritesWhatItHas) {
  TemporaryFolder folder;
  const Finished run = train(folder, {"profiling.trace=true", "profiling.profile_step_start=0",
                                      "profiling.profile_step_end=100", "train.exit_interval=2"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(slices(parsed(folder / "run" / "trace_rank_00000.json"), "step"),
            (std::set<std::string>{"step 1", "step 2"}));
}

TEST(Profiling, WhatCannotBeIsRefused) {
  const auto expect_refused = [](const Overrides& overrides, const std::string& message) {
    TemporaryFolder folder;
    const Finished run = train(folder, overrides);
    EXPECT_EQ(run.status, 2) << message;
    EXPECT_THAT(run.err, AllOf(HasSubstr(message), HasSubstr("profiling.")));
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  expect_refused({"profiling.profile_step_start=3", "profiling.profile_step_end=3"},
                 "3 is not above profile_step_start = 3");
  expect_refused({"profiling.trace=true", "profiling.profile_step_start=0",
                  "profiling.profile_ranks=[0,2]", "dist.ranks=2"},
                 "rank 2 is not one of the run's 2 (0 to 1)");
  expect_refused({"profiling.trace=true"}, "the run ends with step 5");
  expect_refused(
      {"profiling.trace=true", "profiling.profile_ranks=[]", "profiling.profile_step_start=0"},
      "no rank is named");
}

TEST(Profiling, OffWritesNothing) {
  TemporaryFolder folder;
  ASSERT_EQ(train(folder, {"profiling.profile_step_start=0"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / "trace_rank_00000.json"));
}

}  // namespace
}  // namespace viaduct
