// Tasks, compared with lm_eval, on one rank and in layouts.

#include "inference/task_evaluation.h"

#include <gmock/gmock.h>

#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/golden_tasks.h"
#include "support/instruction_set.h"
#include "support/language_model.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

TaskEvaluationRequest request_of(const GoldenTasks& golden, const Overrides& overrides) {
  TaskEvaluationRequest request{.inference = {.model = golden.model, .overrides = overrides},
                                .tasks = golden_task_file()};
  request.inference.overrides.push_back("dist.threads_per_rank=1");
  request.inference.overrides.push_back("mixed_precision=fp32");
  for (const std::string& isa : instruction_set_override())
    request.inference.overrides.push_back(isa);
  return request;
}

TaskScore score_of(const TaskEvaluation& evaluation) {
  TaskScore score;
  std::mutex mutex;
  run_ranks(evaluation.run.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(evaluation.run.config.dist);
    TaskScore mine = evaluate_tasks(evaluation, *rank.device, rank.ops, std::move(world));
    const std::lock_guard lock(mutex);
    if (!score.texts.empty()) {
      for (size_t i = 0; i < score.texts.size(); ++i)
        EXPECT_EQ(score.texts[i].log_likelihood, mine.texts[i].log_likelihood);
    }
    score = std::move(mine);
  });
  return score;
}

/// Whether the log-likelihoods are those of the reference, for its lines.
void expect_golden(const TaskScore& score, const TaskFile& file, const GoldenTasks& golden) {
  size_t text = 0, row = 0;
  for (const TaskLine& line : file.lines) {
    const bool has_result =
        row < golden.file.lines.size() && golden.file.lines[row].line == line.line;
    for (size_t c = 0; c < line.texts(); ++c, ++text) {
      if (!has_result) continue;
      EXPECT_NEAR(score.texts[text].log_likelihood,
                  golden.rows[row].at("log_likelihoods")[c].get<double>(), 1e-4)
          << file.where(line) << " choice " << c;
      EXPECT_EQ(score.texts[text].is_greedy, golden.rows[row].at("is_greedy")[c].get<bool>());
    }
    row += has_result ? 1 : 0;
  }
  EXPECT_EQ(row, golden.rows.size());
  EXPECT_EQ(text, score.texts.size());
}

TEST(TaskEvaluations, LogLikelihoodsAreThoseOfTheReference) {
  for (const char* model : {"model_bos", "model_plain"}) {
    for (const bool with_examples : {false, true}) {
      const GoldenTasks golden(model, with_examples);
      TaskEvaluationRequest request = request_of(golden, {});
      if (with_examples) {
        request.few_shot = 2;
        request.examples = golden_example_file();
      }
      const TaskEvaluation evaluation = prepare_task_evaluation(request);
      expect_golden(score_of(evaluation), evaluation.tasks.file, golden);
    }
  }
}

TEST(TaskEvaluations, EveryLayoutGivesTheSame) {
  const Overrides kLayouts[] = {
      {"dist.ranks=2"},
      {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
      {"dist.ranks=2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"},
      {"dist.ranks=2", "model.pipeline_model_parallel_size=2"},
      {"dist.ranks=2", "model.context_parallel_size=2"},
      {"dist.ranks=4", "model.context_parallel_size=2", "model.tensor_model_parallel_size=2",
       "train.micro_batch_size=2"},
      {"dist.ranks=4", "model.pipeline_model_parallel_size=2", "train.micro_batch_size=1"},
  };
  for (const char* model : {"model_bos", "model_plain"}) {
    const GoldenTasks golden(model);
    for (const Overrides& layout : kLayouts) {
      SCOPED_TRACE(testing::PrintToString(layout) + model);
      const TaskEvaluation evaluation = prepare_task_evaluation(request_of(golden, layout));
      expect_golden(score_of(evaluation), evaluation.tasks.file, golden);
    }
  }
}

TEST(TaskEvaluations, ExpertsMayBeOnSeveralRanks) {
  const LanguageModel model("mixtral");
  const auto scored = [&](const Overrides& layout) {
    TaskEvaluationRequest request{
        .inference = {.model = model.path(),
                      .overrides =
                          layout + Overrides{"dist.threads_per_rank=1", "mixed_precision=fp32"}},
        .tasks = golden_example_file()};
    return score_of(prepare_task_evaluation(request)).texts;
  };
  const auto one = scored({});
  const Overrides kLayouts[] = {
      {"dist.ranks=2", "model.expert_model_parallel_size=2"},
      {"dist.ranks=2", "model.expert_model_parallel_size=2",
       "model.moe_token_dispatcher_type=allgather"},
      {"dist.ranks=2", "model.tensor_model_parallel_size=2", "model.expert_model_parallel_size=2",
       "model.expert_tensor_parallel_size=1"},
  };
  for (const Overrides& layout : kLayouts) {
    SCOPED_TRACE(layout.back());
    const auto several = scored(layout);
    ASSERT_EQ(several.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(several[i].log_likelihood, one[i].log_likelihood, 1e-4);
  }
}

TEST(TaskEvaluations, MicroBatchesDoNotChangeTheScores) {
  const GoldenTasks golden("model_bos");
  const TaskEvaluation evaluation =
      prepare_task_evaluation(request_of(golden, {"train.micro_batch_size=1"}));
  expect_golden(score_of(evaluation), evaluation.tasks.file, golden);
}

TEST(TaskEvaluations, ARowThatIsGivenCutsTextsOnTheLeft) {
  const GoldenTasks golden("model_bos");
  TaskEvaluationRequest request = request_of(golden, {});
  EXPECT_EQ(prepare_task_evaluation(request).run.config.model.seq_length.value(), golden.row);
  request.inference.sequence_length = 40;
  const TaskEvaluation shorter = prepare_task_evaluation(request);
  EXPECT_GT(shorter.tasks.shortened, 0);
  EXPECT_THAT(shorter.run.notes, testing::Contains(testing::HasSubstr("row of 40 tokens")));
  EXPECT_EQ(score_of(shorter).texts.size(), shorter.tasks.requests);
}

TEST(TaskEvaluations, RefusesWhatDoesNotFit) {
  const GoldenTasks golden("model_bos");
  TaskEvaluationRequest request = request_of(golden, {});
  request.few_shot = 2;
  EXPECT_THROW(prepare_task_evaluation(request), ConfigError);
  request.examples = golden_example_file();
  request.few_shot = 4;
  EXPECT_THROW(prepare_task_evaluation(request), ConfigError);
  const TemporaryFolder folder;
  request = request_of(golden, {});
  request.tasks = folder / "tasks.jsonl";
  EXPECT_THROW(prepare_task_evaluation(request), ConfigError);
  write_file_atomically(request.tasks, "{}\n");
  EXPECT_THROW(prepare_task_evaluation(request), ConfigError);
  // A folder without a tokenizer.
  request = request_of(golden, {});
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(golden.model / file, folder / file);
  request.inference.model = folder.path();
  EXPECT_THROW(prepare_task_evaluation(request), ConfigError);
}

}  // namespace
}  // namespace viaduct
