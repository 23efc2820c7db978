// Reads metrics.jsonl back, and shows a run's log.

#include "report/run_log.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "report/metrics.h"
#include "report/page/symptoms.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// A run of equal steps, except that the first is slow.
std::vector<StepMetrics> steps(int count) {
  std::vector<StepMetrics> all;
  for (int i = 1; i <= count; ++i) {
    StepMetrics m;
    m.step = i;
    m.tokens = 100 * i;
    m.loss = 4.0 - 0.01 * i;
    m.step_seconds = i == 1 ? 9 : 0.5;
    m.communication_seconds = 0.05;
    m.data_seconds = 0.001;
    m.peak_memory_bytes = 1000 + i;
    m.tokens_per_second = 200;
    all.push_back(m);
  }
  return all;
}

class RunLogTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::vector<StepMetrics>& all, const std::string& end = "") {
    const auto path = folder_.path() / "metrics.jsonl";
    std::ofstream out(path);
    for (const StepMetrics& m : all) out << json_line(m) << '\n';
    out << end;
    return path;
  }
  Symptom symptom(const std::vector<StepMetrics>& all, const std::string& name,
                  const std::optional<PlannedRun>& planned = std::nullopt) {
    for (const Symptom& s : find_symptoms(read_run_log(write(all)), planned))
      if (s.name == name) return s;
    ADD_FAILURE() << "no symptom " << name;
    return {};
  }
  test::TemporaryFolder folder_;
};

TEST_F(RunLogTest, HasStepsValidationsAndTheEnd) {
  ValidationMetrics validation;
  validation.step = 3;
  validation.validation_loss = 3.5;
  const RunLog log = read_run_log(
      write(steps(3), json_line(validation) + "\n" + json_stopped_line(3, "signal") + "\n"));
  ASSERT_EQ(log.steps.size(), 3u);
  EXPECT_EQ(log.steps[1].step, 2);
  EXPECT_DOUBLE_EQ(*log.steps[2].loss, 3.97);
  EXPECT_FALSE(log.steps[0].slowest_rank.has_value());
  ASSERT_EQ(log.validations.size(), 1u);
  EXPECT_EQ(log.validations[0].loss, 3.5);
  EXPECT_FALSE(log.validations[0].test);
  EXPECT_EQ(log.stopped, "signal");
  EXPECT_EQ(log.tokens, 300);
  EXPECT_FALSE(log.truncated);
}

TEST_F(RunLogTest, AStopThatARunWasResumedFromIsNotItsEnd) {
  const std::string path = write(steps(3)).string();
  const std::string text = read_file(path);
  const std::string stop = json_stopped_line(3, "train.exit_interval=3") + "\n";
  write_file_atomically(path, text + stop);
  EXPECT_EQ(read_run_log(path).stopped, "train.exit_interval=3");
  write_file_atomically(path, text + stop + text);
  EXPECT_EQ(read_run_log(path).stopped, "");
}

TEST_F(RunLogTest, TheFirstStepCountsOnlyAlone) {
  const MeasuredSteps many = measured_steps(read_run_log(write(steps(4))));
  EXPECT_EQ(many.steps, 3);
  EXPECT_EQ(many.step_seconds, 0.5);
  EXPECT_EQ(many.peak_memory_bytes, 1004);
  EXPECT_EQ(measured_steps(read_run_log(write(steps(1)))).step_seconds, 9);
}

TEST_F(RunLogTest, ALineThatWasCutAtTheEndIsSaidAndAnyOtherIsAnError) {
  EXPECT_TRUE(read_run_log(write(steps(2), "{\"step\": 3, \"lo")).truncated);
  EXPECT_THAT([&] { read_run_log(write(steps(2), "{\"step\": 3, \"lo\n{}\n")); },
              ThrowsMessage<IoError>(HasSubstr("metrics.jsonl, line 3")));
  EXPECT_THAT([&] { read_run_log(write({}, "[1]\n")); },
              ThrowsMessage<IoError>(HasSubstr("line 1: expected an object")));
  EXPECT_THAT([&] { read_run_log(write({}, "{\"step_seconds\": 1}\n")); },
              ThrowsMessage<IoError>(HasSubstr("line 1: step is missing")));
  EXPECT_THAT([&] { read_run_log(write({})); },
              ThrowsMessage<IoError>(HasSubstr("no step was logged")));
}

TEST_F(RunLogTest, LinesThatAreNothingKnownAreCountedAndNamed) {
  const auto left_out = [&](const std::string& more) {
    const auto path = write(steps(2), more);
    return left_out_text(read_run_log(path), path);
  };
  EXPECT_EQ(left_out(""), "");
  EXPECT_EQ(left_out("{\"step\":2,\"validation_loss\":null}\n"), "") << "not finite";
  EXPECT_THAT(left_out("{\"step\":3,\"loss\":2}\n\n{}\n{\"ste"),
              testing::EndsWith("metrics.jsonl: not shown: 2 of its lines are neither a step, a "
                                "validation nor an end: lines 3, 5; its last line is incomplete"));
}

TEST_F(RunLogTest, WaitsAreSymptomsFromTheirShareOn) {
  auto run = steps(10);
  EXPECT_EQ(symptom(run, "steps wait for data").state, SymptomState::absent);
  EXPECT_EQ(symptom(run, "compute waits for communication").state, SymptomState::absent);
  for (StepMetrics& m : run) m.data_seconds = 0.006, m.communication_seconds = 0.2;
  EXPECT_EQ(symptom(run, "steps wait for data").state, SymptomState::shown);
  const Symptom waits = symptom(run, "compute waits for communication");
  EXPECT_EQ(waits.state, SymptomState::shown);
  EXPECT_THAT(waits.evidence, HasSubstr("40.0 %"));
  EXPECT_THAT(waits.advice, HasSubstr("overlap"));
}

TEST_F(RunLogTest, SlowStepsHaveTheirInterval) {
  auto run = steps(100);
  for (size_t i = 9; i < run.size(); i += 10) run[i].step_seconds = 2;
  const Symptom slow = symptom(run, "some steps take much longer");
  EXPECT_EQ(slow.state, SymptomState::shown);
  EXPECT_THAT(slow.evidence, testing::AllOf(HasSubstr("10 of 99"), HasSubstr("10 steps apart")));
}

TEST_F(RunLogTest, ASlowRankIsOneThatIsAlwaysTheSame) {
  auto run = steps(10);
  EXPECT_EQ(symptom(run, "one rank is slower").state, SymptomState::unknown);
  for (size_t i = 0; i < run.size(); ++i) {
    run[i].ranks.emplace();
    run[i].ranks->step_seconds.most = 0.6;
    run[i].ranks->step_seconds.most_rank = 7;
  }
  const Symptom slow = symptom(run, "one rank is slower");
  EXPECT_EQ(slow.state, SymptomState::shown);
  EXPECT_THAT(slow.evidence, HasSubstr("rank 7"));
  for (size_t i = 0; i < run.size(); ++i)
    run[i].ranks->step_seconds.most_rank = static_cast<int>(i % 3);
  EXPECT_EQ(symptom(run, "one rank is slower").state, SymptomState::absent);
}

TEST_F(RunLogTest, APlanIsHeldAgainstTheRun) {
  const PlannedRun planned{0.4, 0.05, 1010};
  const Symptom slow = symptom(steps(10), "slower than planned", planned);
  EXPECT_EQ(slow.state, SymptomState::shown);
  EXPECT_THAT(slow.evidence, HasSubstr("+25.0 %"));
  EXPECT_THAT(slow.advice, HasSubstr("compute and the host"));
  EXPECT_EQ(symptom(steps(10), "memory differs from the plan", planned).state,
            SymptomState::absent);
  EXPECT_EQ(symptom(steps(10), "memory differs from the plan", PlannedRun{0.5, 0, 900}).state,
            SymptomState::shown);
}

}  // namespace
}  // namespace viaduct
