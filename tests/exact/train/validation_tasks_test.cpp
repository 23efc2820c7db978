// Tasks and prompts at the evaluations of a run: they say what `viaduct eval` and `viaduct
// generate` say of its checkpoints.

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/save_folder.h"
#include "generate/chat_prompts.h"
#include "generate/prompts.h"
#include "inference/task_evaluation.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/conversations.h"
#include "support/golden_tasks.h"
#include "support/language_model.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Fine-tunes a small model for two steps.
Overrides tuned_run(const std::filesystem::path& save, const Overrides& more = {}) {
  return Overrides{"checkpoint.pretrained_checkpoint=" + GoldenTasks("model_bos").model.string(),
                   "model.seq_length=64",
                   "mixed_precision=fp32",
                   "dataset.mock=true",
                   "train.train_iters=2",
                   "train.global_batch_size=4",
                   "train.micro_batch_size=2",
                   "optimizer.lr=1e-2",
                   "scheduler.lr_warmup_iters=0",
                   "validation.eval_iters=0",
                   "validation.eval_interval=1",
                   "logger.log_interval=1",
                   "dist.threads_per_rank=1",
                   "dist.distributed_timeout_minutes=1",
                   "checkpoint.save=" + save.string()} +
         more;
}

void run(const Overrides& overrides) {
  const RunSetup setup = setup_of(overrides);
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    trainer.run();
  });
}

/// The values of a field of metrics.jsonl, by step.
std::map<int64_t, json> lines_with(const std::filesystem::path& save, const std::string& field) {
  std::map<int64_t, json> values;
  std::ifstream lines(save / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const json object = json::parse(line);
    if (object.contains(field)) values[object.at("step").get<int64_t>()] = object.at(field);
  }
  return values;
}

const Overrides kTasks{"validation.tasks=" + golden_task_file().string()};

/// The figures of a checkpoint.
json figures_of(const std::filesystem::path& model) {
  const TaskEvaluation evaluation = prepare_task_evaluation(
      {.inference = {.model = model,
                     .overrides = {"dist.threads_per_rank=1", "mixed_precision=fp32"},
                     .sequence_length = 64},
       .tasks = golden_task_file()});
  const RankDevice rank = make_rank_device(evaluation.run.config.dist);
  const TaskScore score =
      evaluate_tasks(evaluation, *rank.device, rank.ops, make_self_communicator("world"));
  json figures;
  for (const TaskFigures& task : score.figures)
    figures[task.task] = json::parse(to_json(task).dump());
  return figures;
}

void expect_near(const json& a, const json& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [task, figures] : a.items()) {
    for (const auto& [name, value] : figures.items()) {
      if (value.is_null()) continue;
      const double other = b.at(task).at(name).get<double>();
      EXPECT_NEAR(value.get<double>(), other, 1e-3 * std::max(1.0, other)) << task << " " << name;
    }
  }
}

TEST(ValidationTasks, HaveTheFiguresOfTheCheckpoints) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  run(tuned_run(save, kTasks + Overrides{"checkpoint.save_interval=1"}));
  const auto tasks = lines_with(save, "validation_tasks");
  ASSERT_EQ(tasks.size(), 3u);
  expect_near(tasks.at(1), figures_of(save / step_folder_name(1)));
  expect_near(tasks.at(2), figures_of(save / step_folder_name(2)));
}

TEST(ValidationTasks, AreTheSameInEveryLayout) {
  TemporaryFolder folder;
  run(tuned_run(folder / "one", kTasks));
  const json one = lines_with(folder / "one", "validation_tasks").at(2).at("continue");
  const Overrides kLayouts[] = {
      {"dist.ranks=2", "ddp.data_parallel_sharding_strategy=optim_grads_params"},
      {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
      {"dist.ranks=2", "model.context_parallel_size=2"},
      {"dist.ranks=2", "model.pipeline_model_parallel_size=2"},
  };
  for (const Overrides& layout : kLayouts) {
    SCOPED_TRACE(layout.back());
    const auto save = folder / "layout";
    std::filesystem::remove_all(save);
    run(tuned_run(save, kTasks + layout));
    const json figures = lines_with(save, "validation_tasks").at(2).at("continue");
    EXPECT_NEAR(std::log(figures.at("perplexity").get<double>()),
                std::log(one.at("perplexity").get<double>()), 1e-3);
  }
}

TEST(ValidationTasks, ChooseTheBestCheckpoint) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  run(tuned_run(save, kTasks + Overrides{"checkpoint.keep_best=continue/perplexity"}));
  const auto tasks = lines_with(save, "validation_tasks");
  const auto perplexity = [&](int64_t step) {
    return tasks.at(step).at("continue").at("perplexity").get<double>();
  };
  EXPECT_EQ(best_step(save), perplexity(2) < perplexity(1) ? 2 : 1);
  EXPECT_THAT([&] { run(tuned_run(save, kTasks + Overrides{"checkpoint.keep_best=facts/f1"})); },
              ThrowsMessage<ConfigError>(HasSubstr("facts/acc_norm (higher is better)")));
}

TEST(ValidationTasks, AFileThatIsNoneStopsTheRunBeforeItBegins) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  write_file_atomically(folder / "tasks.jsonl", "{\"context\": 1}\n");
  EXPECT_THAT(
      [&] { run(tuned_run(save, {"validation.tasks=" + (folder / "tasks.jsonl").string()})); },
      ThrowsMessage<ConfigError>(HasSubstr("tasks.jsonl line 1")));
  EXPECT_FALSE(std::filesystem::exists(save));
  EXPECT_THAT([&] { setup_of(tiny_run() + kTasks); },
              ThrowsMessage<ConfigError>(HasSubstr("validation.tasks")));
}

class SamplePromptRuns : public testing::Test {
 protected:
  SamplePromptRuns() {
    write_file_atomically(folder_ / "prompts.txt", "First Citizen:\nSpeak, speak.\nWe\n");
  }
  Overrides prompts() const {
    return {"validation.sample_prompts=" + (folder_ / "prompts.txt").string(),
            "validation.sample_tokens=12"};
  }

  TemporaryFolder folder_;
};

TEST_F(SamplePromptRuns, AnswersAreThoseOfTheCheckpoint) {
  const auto save = folder_ / "run";
  run(tuned_run(save, prompts()));
  const json answers = lines_with(save, "validation_answers").at(2);
  ASSERT_EQ(answers.size(), 3u);
  const RunSetup setup =
      prepare_inference({.model = save,
                         .overrides = {"dist.threads_per_rank=1", "mixed_precision=fp32"},
                         .few_tokens = true});
  GenerationWork work;
  work.batches = {make_prompts(plain_prompts(read_prompt_file(folder_ / "prompts.txt")),
                               *setup.tokenizer, setup.model, 12)};
  work.options.sampling.temperature = 0;
  work.options.stop_tokens = stop_tokens(*setup.tokenizer, setup.model);
  const auto texts = generate_texts(setup, work);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answers[i].at("answer"), setup.tokenizer->decode_text(texts[i].generated.tokens));
    EXPECT_EQ(answers[i].at("prompt"),
              plain_prompts(read_prompt_file(folder_ / "prompts.txt"))[i].text);
  }
}

TEST_F(SamplePromptRuns, AnswersAreTheSameInEveryLayout) {
  run(tuned_run(folder_ / "one", prompts()));
  const json one = lines_with(folder_ / "one", "validation_answers").at(0);
  const Overrides kLayouts[] = {
      {"dist.ranks=2", "ddp.data_parallel_sharding_strategy=optim_grads_params"},
      {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
      {"dist.ranks=2", "model.pipeline_model_parallel_size=2"},
      {"dist.ranks=4", "model.pipeline_model_parallel_size=2", "train.micro_batch_size=1"},
  };
  for (const Overrides& layout : kLayouts) {
    SCOPED_TRACE(layout.back());
    const auto save = folder_ / "layout";
    std::filesystem::remove_all(save);
    run(tuned_run(save, prompts() + layout));
    EXPECT_EQ(lines_with(save, "validation_answers").at(0), one);
  }
}

TEST_F(SamplePromptRuns, ChangeNothingElse) {
  run(tuned_run(folder_ / "with", prompts() + kTasks));
  run(tuned_run(folder_ / "without"));
  const auto file = std::filesystem::path(step_folder_name(2)) / "rank_00000.bin";
  EXPECT_TRUE(read_file(folder_ / "with" / file) == read_file(folder_ / "without" / file));
}

TEST_F(SamplePromptRuns, OfConversationsAreMessagesAsInAChat) {
  const LanguageModel model("llama");
  write_file_atomically(model / "chat_template.jinja",
                        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
                        "{% if add_generation_prompt %}[assistant] {% endif %}");
  const std::string data =
      write_conversations(folder_ / "chat", conversations_of(random_lengths(12, 5, 20), 250));
  const auto save = folder_ / "run";
  const Overrides of_chat{"checkpoint.pretrained_checkpoint=" + model.path().string(),
                          "dataset.mock=false", "dataset.blend=[" + data + "]",
                          "dataset.split=1,0,0", "train.train_iters=1"};
  write_file_atomically(folder_ / "prompts.txt", "the cat\n");
  run(tuned_run(save, prompts() + of_chat));
  const json answer = lines_with(save, "validation_answers").at(1).at(0);
  EXPECT_EQ(answer.at("prompt"), "[user] the cat\n[assistant] ");

  const RunSetup setup =
      prepare_inference({.model = save,
                         .overrides = {"dist.threads_per_rank=1", "mixed_precision=fp32"},
                         .few_tokens = true});
  const ChatPrompts chat(ChatRenderer::load(open_tokenizer_files(model.path())).value(),
                         *setup.tokenizer, {});
  GenerationWork work;
  work.batches = {make_prompts(make_chat_prompts({{"the cat", "here"}}, false, chat),
                               *setup.tokenizer, setup.model, 12)};
  work.options.sampling.temperature = 0;
  work.options.stop_tokens = stop_tokens(*setup.tokenizer, setup.model);
  const auto texts = generate_texts(setup, work);
  // The model has more rows than the tokenizer has tokens, and knows nothing.
  EXPECT_EQ(answer.at("answer"), shown_text(*setup.tokenizer, texts[0].generated.tokens));
}

TEST_F(SamplePromptRuns, RefuseWhatCannotBeAnswered) {
  const auto save = folder_ / "run";
  EXPECT_THAT(
      [&] {
        setup_of(tuned_run(save,
                           prompts() + Overrides{"dist.ranks=2", "model.context_parallel_size=2"}));
      },
      ThrowsMessage<ConfigError>(HasSubstr("validation.sample_prompts")));
  std::string longer;
  for (int i = 0; i < 70; ++i) longer += "speak ";
  write_file_atomically(folder_ / "prompts.txt", "We\n\n" + longer + "\n");
  EXPECT_THAT(
      [&] { run(tuned_run(save, prompts())); },
      ThrowsMessage<ConfigError>(testing::AllOf(HasSubstr("line 2: empty"), HasSubstr("line 3"))));
  EXPECT_FALSE(std::filesystem::exists(save));
}

}  // namespace
}  // namespace viaduct
