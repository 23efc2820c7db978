// `viaduct eval --tasks` as scripts use it.

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/golden_tasks.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::GoldenTasks;

class EvalTasks : public testing::Test {
 protected:
  test::CommandResult run(const std::string& arguments,
                          const std::string& tasks = test::golden_task_file().string()) {
    return test::run_viaduct("eval --model " + golden_.model.string() + " --tasks " + tasks +
                             " dist.threads_per_rank=1 mixed_precision=fp32 " + arguments);
  }
  void expect(const test::CommandResult& result, int status, const std::string& text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }

  GoldenTasks golden_{"model_bos"};
  test::TemporaryFolder folder_;
};

TEST_F(EvalTasks, PrintsTheFiguresOfTheReferenceAsJson) {
  const auto result = run("--json --rows");
  ASSERT_EQ(result.status, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document.size(), 2u);
  test::expect_golden_figures(document.at("tasks"), golden_);
  const json& rows = document.at("rows");
  ASSERT_EQ(rows.size(), golden_.rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].size(), 2u);
    EXPECT_EQ(rows[i].at("is_greedy"), golden_.rows[i].at("is_greedy"));
    for (size_t c = 0; c < rows[i].at("log_likelihoods").size(); ++c) {
      EXPECT_NEAR(rows[i].at("log_likelihoods")[c].get<double>(),
                  golden_.rows[i].at("log_likelihoods")[c].get<double>(), 1e-4);
    }
  }
  const json without_rows = json::parse(run("--json").out);
  EXPECT_EQ(without_rows.size(), 1u);
  EXPECT_EQ(without_rows.at("tasks"), document.at("tasks"));
}

TEST_F(EvalTasks, ExamplesComeBeforeEachContext) {
  const GoldenTasks golden("model_bos", true);
  std::string facts;
  for (const auto& line : golden.file.lines) {
    json object{{"context", line.context}, {"choices", line.choices}, {"answer", line.answer}};
    object["task"] = line.task;
    facts += object.dump() + "\n";
  }
  write_file_atomically(folder_ / "facts.jsonl", facts);
  const auto result = run("--json --few-shot 2 --examples " + test::golden_example_file().string(),
                          (folder_ / "facts.jsonl").string());
  ASSERT_EQ(result.status, 0) << result.err;
  test::expect_golden_figures(json::parse(result.out).at("tasks"), golden);
}

TEST_F(EvalTasks, PrintsATable) {
  const auto result = run("--rows");
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* text : {"task", "acc_norm", "facts", "unicode", "continue", "perplexity",
                           "0.5000 ± 0.1508", "log-likelihoods"})
    EXPECT_NE(result.out.find(text), std::string::npos) << text << "\n" << result.out;
}

TEST_F(EvalTasks, ADelimiterJoinsContextAndChoice) {
  const json space = json::parse(run("--json --rows").out),
             none = json::parse(run("--json --rows --delimiter ''").out);
  EXPECT_NE(space.at("rows")[0], none.at("rows")[0]);
  EXPECT_EQ(space.at("rows")[25], none.at("rows")[25]);  // a continuation has none
}

TEST_F(EvalTasks, RefusesWhatIsNoTask) {
  write_file_atomically(folder_ / "bad.jsonl",
                        "{\"context\": \"A\", \"continuation\": \"b\"}\n{\"context\": \"A\"}\n");
  const std::string bad = (folder_ / "bad.jsonl").string();
  expect(run("--json", bad), 2, bad + " line 2: expected either");
  expect(run("", (folder_ / "nothing.jsonl").string()), 2, "nothing.jsonl");
  expect(run("--few-shot 2"), 2, "--examples");
  expect(run("--examples " + bad), 2, "--few-shot");
  expect(run("--few-shot 9 --examples " + test::golden_example_file().string()), 2,
         "has 3 examples");
  expect(run("--stride 3"), 2, "--stride");
  expect(run("--data " + bad), 2, "--data");
  expect(test::run_viaduct("eval --model " + golden_.model.string()), 2, "--tasks");
  expect(test::run_viaduct("eval --rows --data x --model " + golden_.model.string()), 2, "--tasks");
}

TEST_F(EvalTasks, ADryRunPrintsTheMemory) {
  const auto result = run("--dry-run");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("an evaluated micro-batch"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace viaduct
