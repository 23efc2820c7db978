// Evaluations on tasks and answers to prompts: in metrics.jsonl, TensorBoard, on the display, and
// on the page of a run.

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/json.h"
#include "report/metrics_log.h"
#include "report/page/run_page.h"
#include "report/run_log.h"
#include "report/tensorboard_events.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TaskMetrics tasks_after(int64_t step) {
  TaskMetrics metrics{.step = step, .samples = 4 * step, .tokens = 100 * step};
  metrics.tasks = {{.task = "facts",
                    .lines = 12,
                    .acc = {0.5, 0.15},
                    .acc_norm = TaskMean{0.25, 0.1},
                    .acc_bytes = TaskMean{0.25, 0.1}},
                   {.task = "text", .lines = 1, .acc = {1, std::nullopt}, .perplexity = 12.5}};
  metrics.seconds = 0.5;
  return metrics;
}

AnswerMetrics answers_after(int64_t step) {
  AnswerMetrics metrics{.step = step};
  metrics.answers = {{"Once", " upon <a> time\nthere was"}, {"Then", " it\x80 ended"}};
  return metrics;
}

TEST(ValidationLines, GoToEveryWriterAndComeBack) {
  test::TemporaryFolder folder;
  const auto run = folder / "run", display = folder / "display.txt";
  std::FILE* out = std::fopen(display.c_str(), "w");
  {
    MetricsLog log({.folder = run,
                    .tensorboard_folder = run / "tensorboard",
                    .display = out,
                    .total_steps = 2,
                    .log_interval = 1});
    log.step({.step = 1, .step_seconds = 1});
    log.tasks(tasks_after(1));
    log.answers(answers_after(1));
    log.step({.step = 2, .step_seconds = 1});
    log.tasks(tasks_after(2));
    log.answers(answers_after(2));
  }
  std::fclose(out);
  EXPECT_THAT(read_file(display),
              AllOf(HasSubstr("step 2 | task facts: acc 0.5, acc_norm 0.25, acc_bytes 0.25 (12 "
                              "lines)"),
                    HasSubstr("perplexity 12.5 (1 line)"),
                    HasSubstr("step 1 | Once →  upon <a> time\\nthere was")));
  const auto event_file = std::filesystem::directory_iterator(run / "tensorboard")->path();
  EXPECT_THAT(read_file(event_file),
              AllOf(HasSubstr("validation/facts/acc_norm"), HasSubstr("validation/answers/2"),
                    HasSubstr("    Once"), HasSubstr("\n    there was")));

  const RunLog log = read_run_log(run / "metrics.jsonl");
  EXPECT_TRUE(log.unknown_lines.empty());
  ASSERT_EQ(log.figures.size(), 10u);
  EXPECT_EQ(log.figures[9].task, "text");
  EXPECT_EQ(log.figures[9].name, "perplexity");
  EXPECT_EQ(log.figures[9].value, 12.5);
  ASSERT_EQ(log.answers.size(), 4u);
  EXPECT_EQ(log.answers[0].answer, " upon <a> time\nthere was");
  EXPECT_EQ(log.answers[3].step, 2);
  const std::string page = run_page({.name = "run", .log = log});
  EXPECT_THAT(page, AllOf(HasSubstr("Tasks"), HasSubstr("acc_norm by step"), HasSubstr("Answers"),
                          HasSubstr("upon &lt;a&gt; time"), HasSubstr("After step 1")));
}

TEST(ValidationLines, AreWrittenOnceForAStep) {
  test::TemporaryFolder folder;
  const MetricsLogOptions options{.folder = folder.path(), .total_steps = 2, .log_interval = 1};
  {
    MetricsLog log(options);
    log.step({.step = 1, .step_seconds = 1});
    log.tasks(tasks_after(1));
    log.answers(answers_after(1));
    EXPECT_FALSE(log.tasks_before());
  }
  const std::string before = read_file(folder / "metrics.jsonl");
  MetricsLogOptions resumed = options;
  resumed.steps_done = 1;
  {
    MetricsLog log(resumed);
    EXPECT_TRUE(log.tasks_before());
    log.tasks(tasks_after(1));
    log.answers(answers_after(1));
  }
  EXPECT_EQ(read_file(folder / "metrics.jsonl"), before);
}

TEST(ValidationLines, HaveTheFiguresOfTasks) {
  const auto line = nlohmann::json::parse(json_line(tasks_after(3)));
  const auto& tasks = line.at("validation_tasks");
  EXPECT_EQ(tasks.at("facts").at("acc"), 0.5);
  EXPECT_EQ(tasks.at("facts").at("acc_stderr"), 0.15);
  EXPECT_EQ(tasks.at("facts").at("lines"), 12);
  EXPECT_FALSE(tasks.at("facts").contains("perplexity"));
  EXPECT_TRUE(tasks.at("text").at("acc_stderr").is_null());
  EXPECT_THAT(json_line(tasks_after(3)), Not(HasSubstr("\n")));
}

// Field numbers of Event, Summary, Summary.Value, TensorProto and SummaryMetadata.
TEST(ValidationLines, ATextEventIsATensorOfOneString) {
  const tensorboard::Text texts[] = {{"t", "ab"}};
  const std::string event = tensorboard::texts_event(0, 7, texts);
  const std::string value =
      std::string("\x0a\x01t", 3) +                                // tag
      std::string("\x42\x08\x08\x07\x12\x00\x42\x02", 8) + "ab" +  // tensor: DT_STRING, no dims
      std::string("\x4a\x0a\x0a\x06\x0a\x04", 6) + "text" + std::string("\x20\x02", 2);
  const std::string summary = std::string("\x0a", 1) + static_cast<char>(value.size()) + value;
  EXPECT_EQ(event.substr(9),
            std::string("\x10\x07\x2a", 3) + static_cast<char>(summary.size()) + summary);
}

}  // namespace
}  // namespace viaduct
