// viaduct plan --model: the search for a layout; the configuration that it writes trains.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kSearch =
    "plan --model llama3-8b --cluster dgx-h100 --ranks 8 --global-batch 16 --seq-length 2048 "
    "--time-limit 600 model.num_layers=4 model.context_parallel_size=1 ";

TEST(PlanSearch, ShowsTheFastestLayoutsWithReasons) {
  const auto run = test::run_viaduct(kSearch + "--top 3");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("llama3-8b on 8 × h100-sxm (dgx-h100)"), HasSubstr("the step is"),
                    HasSubstr("slower than the best"), HasSubstr("none is faster than the best"),
                    HasSubstr("rows 1 to 3 are proven"), HasSubstr("rules of the tuning guides: "),
                    HasSubstr("not searched: precision, offload")));
}

TEST(PlanSearch, TheDocumentHasCandidatesInOrder) {
  const auto run = test::run_viaduct(kSearch + "--json --tokens 1e12 --price 2");
  ASSERT_EQ(run.status, 0) << run.err;
  const json document = json::parse(run.out);
  EXPECT_TRUE(document["search"]["complete"]);
  EXPECT_FALSE(document["guide_rules"].empty());
  EXPECT_TRUE(document["search"]["given_up"].empty());
  ASSERT_EQ(document["candidates"].size(), 5u);
  double last = 0;
  for (const json& c : document["candidates"]) {
    const json& p = c["predicted"];
    EXPECT_GE(p["step_seconds"], last);
    last = p["step_seconds"];
    EXPECT_EQ(c["tensor_model_parallel_size"].get<int>() *
                  c["pipeline_model_parallel_size"].get<int>() * c["data_parallel_size"].get<int>(),
              8);
    EXPECT_LE(c["lower_bound"]["step_seconds"], p["step_seconds"]);
    EXPECT_FALSE(c["reasons"].empty());
    EXPECT_TRUE(c["proven"]);
    const double days = 1e12 / p["tokens_per_second_per_gpu"].get<double>() / 8 / 86400;
    EXPECT_NEAR(p["days"], days, 1e-6 * days);
    EXPECT_NEAR(p["cost_usd"], days * 24 * 8 * 2, 1e-3 * days);
  }
}

TEST(PlanSearch, AModelThatFitsNowhereIsSaidWithWhatIsMissing) {
  const auto run = test::run_viaduct(
      "plan --model llama3.1-405b --cluster dgx-h100 --ranks 8 --global-batch 8 --seq-length 8192 "
      "--time-limit 600 model.context_parallel_size=1");
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr("No layout fits"), HasSubstr("more than available")));
  EXPECT_THAT(run.err, HasSubstr("fits in memory"));
}

TEST(PlanSearch, SizesThatNoLayoutHasAreNamed) {
  const std::string command =
      "plan --model llama3-8b --cluster dgx-h100 --ranks 8 --global-batch 8 --seq-length 2048 ";
  const auto none = test::run_viaduct(command + "model.tensor_model_parallel_size=3");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err,
              HasSubstr("model.tensor_model_parallel_size=3, --ranks 8 exclude each other"));
  const auto refused = test::run_viaduct(command +
                                         "model.pipeline_model_parallel_size=4 "
                                         "model.virtual_pipeline_model_parallel_size=3");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("the trainer refuses every layout: model.num_layers: 32"));
}

TEST(PlanSearch, SeveralNumbersOfRanksGiveAScalingTable) {
  const std::string command =
      "plan --model llama3-8b --cluster dgx-h100 --ranks 8,16 --global-batch 16 --seq-length 2048 "
      "--time-limit 600 --top 1 --tokens 1e12 --price 2 model.num_layers=4 ";
  const auto strong = test::run_viaduct(command + "--json");
  ASSERT_EQ(strong.status, 0) << strong.err;
  const json points = json::parse(strong.out)["points"];
  ASSERT_EQ(points.size(), 2u);
  const auto speed = [](const json& point) {
    return point["candidates"][0]["predicted"]["tokens_per_second_per_gpu"].get<double>();
  };
  EXPECT_EQ(points[0]["efficiency"], 1);
  EXPECT_NEAR(points[1]["efficiency"], speed(points[1]) / speed(points[0]), 1e-12);
  EXPECT_LT(points[1]["efficiency"], 1) << "half the number of rows a GPU";
  EXPECT_EQ(points[1]["global_batch_size"], 16);
  const auto weak = test::run_viaduct(command + "--json --weak");
  ASSERT_EQ(weak.status, 0) << weak.err;
  const json grown = json::parse(weak.out)["points"][1];
  EXPECT_EQ(grown["global_batch_size"], 32);
  EXPECT_GT(grown["efficiency"], points[1]["efficiency"]);
  // With more GPUs the training is shorter and costs more.
  const auto& most = points[1]["candidates"][0]["predicted"];
  const std::string in_time = fmt::format("--deadline {}", most["days"].get<double>() * 1.01),
                    cheap = fmt::format("--budget {}", most["cost_usd"].get<double>() * 0.99);
  const auto answered = test::run_viaduct(command + "--json " + in_time + " " + cheap);
  ASSERT_EQ(answered.status, 0) << answered.err;
  const json answers = json::parse(answered.out)["answers"];
  EXPECT_EQ(answers["fewest_gpus_in_time"], 16);
  EXPECT_EQ(answers["fastest_gpus_for_budget"], 8);
  EXPECT_TRUE(answers["cheapest_gpus_in_time_and_budget"].is_null());
  EXPECT_THAT(test::run_viaduct(command + in_time + " " + cheap).out,
              AllOf(HasSubstr("the two contradict each other"), HasSubstr(": 16 GPUs, "),
                    HasSubstr("fastest for at most $")));
  // More money, and both hold: the cheapest of those in time is the answer.
  const std::string enough = fmt::format("--budget {}", most["cost_usd"].get<double>() * 1.01);
  EXPECT_THAT(test::run_viaduct(command + in_time + " " + enough).out,
              AllOf(HasSubstr("cheapest that ends within "), HasSubstr(": 16 GPUs, "),
                    testing::Not(HasSubstr("contradict"))));
  const auto table = test::run_viaduct(command + "--deadline 1e-9");
  EXPECT_THAT(table.out, AllOf(HasSubstr("strong scaling"), HasSubstr("100.0 %"), HasSubstr("$"),
                               HasSubstr("none of these numbers of GPUs")));
}

TEST(PlanSearch, ANumberOfRanksThatNothingDividesLeavesTheOthers) {
  const std::string command =
      "plan --model llama3-8b --cluster dgx-h100 --global-batch 16 --seq-length 2048 --time-limit "
      "600 --top 1 model.num_layers=4 --ranks ";
  const auto table = test::run_viaduct(command + "8,9");
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("100.0 %"), HasSubstr("no layout divides 9 ranks")));
  const auto document = test::run_viaduct(command + "8,9 --json");
  const json points = json::parse(document.out)["points"];
  EXPECT_THAT(points[1]["refused"][0]["reason"].get<std::string>(), HasSubstr("9 ranks"));
  EXPECT_TRUE(points[1]["candidates"].empty());
  const auto none = test::run_viaduct(command + "9,11");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no layout divides 9 ranks"));
}

/// Whatever the layout of the file, unless the command line fixes it.
TEST(PlanSearch, StagesOfAnEncodersOwnAreSearched) {
  const test::TemporaryFolder folder;
  const std::string recipe = folder / "recipe.yaml", written = folder / "best.yaml";
  std::ofstream(recipe) << "model: {family: t5, num_layers: 2, encoder_num_layers: 2, "
                           "hidden_size: 64, ffn_hidden_size: 128, num_attention_heads: 4, "
                           "vocab_size: 128, encoder_pipeline_model_parallel_size: 1}\n"
                           "dist: {ranks: 2}\nmixed_precision: fp32\n";
  const std::string command = "plan --model " + recipe +
                              " --cluster cpu --ranks 2 --global-batch 2 --seq-length 32 "
                              "--time-limit 600 --top 40 model.encoder_seq_length=32 ";
  const auto stages_of = [&](const std::string& more) {
    const auto run = test::run_viaduct(command + "--json " + more);
    EXPECT_EQ(run.status, 0) << run.err;
    std::set<int> stages;
    const json document = json::parse(run.out);
    for (const json& one : document["candidates"])
      stages.insert(one["encoder_pipeline_model_parallel_size"].get<int>());
    return stages;
  };
  EXPECT_EQ(stages_of(""), (std::set{0, 1}));
  const std::string one = "model.encoder_pipeline_model_parallel_size=1";
  EXPECT_EQ(stages_of(one), std::set{1});
  const auto table = test::run_viaduct(command + one + " --write " + written);
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("  encoder pp 1 tp 1\n"),
                               HasSubstr(" · encoder pp 1 · encoder tp 1, ")));
  std::stringstream text;
  text << std::ifstream(written).rdbuf();
  EXPECT_THAT(text.str(), AllOf(HasSubstr("\n  encoder_pipeline_model_parallel_size: 1\n"),
                                HasSubstr("\n  encoder_tensor_model_parallel_size: 1\n")));
}

TEST(PlanSearch, GivenPrecisionGoesBeforeThatOfTheConfiguration) {
  const test::TemporaryFolder folder;
  const std::string recipe = folder / "recipe.yaml";
  std::ofstream(recipe) << "model: {family: llama, num_layers: 2, hidden_size: 64, "
                           "ffn_hidden_size: 128, num_attention_heads: 4, vocab_size: 128}\n"
                           "mixed_precision: fp32\n";
  const auto bytes = [&](const std::string& precision) {
    const auto run = test::run_viaduct("plan --model " + recipe +
                                       " --cluster cpu --ranks 1 --global-batch 2 --seq-length 32 "
                                       "--time-limit 600 --top 1 --json " +
                                       precision);
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out)["candidates"][0]["predicted"]["peak_memory_bytes"];
  };
  EXPECT_EQ(bytes(""), bytes("--precision fp32"));
  EXPECT_NE(bytes(""), bytes("--precision bf16"));
}

TEST(PlanSearch, ASearchThatRanOutOfTimeDoesNotSayThatNothingFits) {
  const auto run = test::run_viaduct(
      "plan --model llama3-8b --cluster dgx-h100 --ranks 64 --global-batch 256 --seq-length 8192 "
      "--time-limit 1e-9");
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr("not complete"), Not(HasSubstr("No layout fits"))));
  EXPECT_THAT(run.err, HasSubstr("found in time"));
}

TEST(PlanSearch, FieldsThatVaryAreChosenAndWritten) {
  const test::TemporaryFolder folder;
  const std::string written = folder / "best.yaml";
  const auto run = test::run_viaduct(kSearch +
                                     "--json --vary 'optimizer.store_param_remainders=false|true' "
                                     "optimizer.use_precision_aware_optimizer=true --write " +
                                     written);
  ASSERT_EQ(run.status, 0) << run.err;
  const json document = json::parse(run.out);
  EXPECT_TRUE(document["search"]["complete"]);
  const std::string best = document["candidates"][0]["varied"];
  EXPECT_THAT(best, testing::StartsWith("optimizer.store_param_remainders="));
  std::ifstream in(written);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_THAT(text, HasSubstr("store_param_remainders: " + best.substr(best.find('=') + 1)));
}

TEST(PlanSearch, ExpertsAreSearched) {
  const auto run = test::run_viaduct(
      "plan --model mixtral-8x7b --cluster dgx-h100 --ranks 8 --global-batch 8 --seq-length 2048 "
      "--time-limit 600 --json model.num_layers=4 model.context_parallel_size=1 "
      "model.pipeline_model_parallel_size=1 train.micro_batch_size=1");
  ASSERT_EQ(run.status, 0) << run.err;
  const json best = json::parse(run.out)["candidates"][0];
  const int ep = best["expert_model_parallel_size"], etp = best["expert_tensor_parallel_size"];
  EXPECT_EQ(8 % (ep * etp), 0);
  EXPECT_GT(ep * etp, 1) << "four layers of experts with all states do not fit on one GPU";
}

TEST(PlanSearch, TheMostThatFitsIsFoundAndTheNextDoesNot) {
  for (const std::string question : {"--longest", "--largest"}) {
    const auto run = test::run_viaduct(
        "plan --model llama3-8b --cluster dgx-h100 --ranks 2 --global-batch 2 --time-limit 600 "
        "--json " +
        question +
        (question == "--longest"
             ? " model.num_layers=6 model.tensor_model_parallel_size=1 "
               "model.context_parallel_size=1 model.pipeline_model_parallel_size=1"
             : " --seq-length 2048"));
    ASSERT_EQ(run.status, 0) << run.err;
    const json answer = json::parse(run.out);
    EXPECT_TRUE(answer["proven"]);
    EXPECT_LE(answer["peak_memory_bytes"], answer["capacity_bytes"]);
    EXPECT_GT(answer["next"]["least_bytes"], answer["capacity_bytes"]);
    EXPECT_GT(answer["next"]["value"], answer["value"]);
  }
}

TEST(PlanSearch, WrongOptionsAreErrors) {
  const auto status_and_error = [](const std::string& arguments, const std::string& text) {
    const auto run = test::run_viaduct("plan --cluster dgx-h100 " + arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_THAT(run.err, HasSubstr(text)) << arguments;
  };
  status_and_error("--model llama3-8x --ranks 8 --global-batch 8", "did you mean llama3-8b?");
  status_and_error("--model llama3-8b --ranks 8", "--global-batch (rows of a step) is missing");
  status_and_error("--model llama3-8b --ranks 8 --global-batch 8",
                   "--seq-length (tokens of a row) is missing");
  status_and_error("--model llama3-8b --ranks 16,8 --global-batch 8", "found 8 after 16");
  status_and_error("--model llama3-8b --ranks 8, --global-batch 8", "found 8,");
  status_and_error("--model llama3-8b --ranks 8 --weak --global-batch 8", "has no effect");
  status_and_error("--model llama3-8b --ranks 8,20 --weak --global-batch 1 --seq-length 2048",
                   "a whole number of rows on");
  status_and_error("--model llama3-8b --ranks 8,16 --global-batch 8 --deadline 3", "--tokens");
  status_and_error("--model llama3-8b --ranks 8 --global-batch 8 --budget 3", "give several");
  status_and_error("--model llama3-8b --ranks 8,16 --global-batch 8 --write x.yaml",
                   "expected one number of ranks");
  status_and_error("--model llama3-8b --ranks many --global-batch 8", "found many");
  status_and_error("--model llama3-8b --ranks 8 --global-batch 8 --precision fp9",
                   "expected one of bf16, fp8, mxfp8, nvfp4");
  status_and_error("--model llama3-8b --ranks 8 --global-batch 8 --seq-length 64 --precision mxfp8",
                   "has no products of MXFP8");
  status_and_error("--model qwen3-next-80b-a3b --ranks 8 --global-batch 8", "hybrid GDN");
  status_and_error("--model llama3-8b --ranks 8 --global-batch 8 --vary state", "nearest: states");
  status_and_error("--model llama3-8b --ranks 8 --global-batch 8 --longest --largest",
                   "give one of them");
  status_and_error("--model llama3-8b --ranks 8,16 --global-batch 8 --longest",
                   "expect one number of ranks");
  status_and_error("--model llama3-8b --ranks 8 --global-batch 8 --measured x.jsonl",
                   "--measured without --config");
  status_and_error("--ranks 8 dist.ranks=8", "--ranks without --model has no effect");
  status_and_error("", "expected --model MODEL to search");
  status_and_error("--model llama3-8b --config x.yaml --ranks 8 --global-batch 8",
                   "give one of them");
}

/// The lines of a metrics file that have a step.
std::vector<json> steps_of(const std::filesystem::path& file) {
  std::vector<json> steps;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    json entry = json::parse(line);
    if (entry.contains("step_seconds")) steps.push_back(std::move(entry));
  }
  return steps;
}

TEST(PlanSearch, TheWinnerForACpuClusterTrainsAsItIsWritten) {
  const test::TemporaryFolder folder;
  const std::string recipe = folder / "recipe.yaml", written = folder / "best.yaml";
  std::ofstream(recipe) << "model: {family: llama, num_layers: 4, hidden_size: 64, "
                           "ffn_hidden_size: 128, num_attention_heads: 4, vocab_size: 128}\n"
                           "train: {train_iters: 3}\n"
                           "mixed_precision: fp32\n"
                           "logger: {log_interval: 1}\n"
                           "validation: {eval_iters: 0}\n"
                           "scheduler: {lr_warmup_iters: 0}\n"
                           "dataset: {mock: true}\n"
                           "checkpoint: {save: " +
                               (folder / "run").string() + "}\n";
  const auto plan = test::run_viaduct("plan --model " + recipe +
                                      " --cluster cpu --ranks 2 --global-batch 4 --seq-length 32 "
                                      "--time-limit 600 --json --write " +
                                      written);
  ASSERT_EQ(plan.status, 0) << plan.err;
  const json best = json::parse(plan.out)["candidates"][0];
  const auto train = test::run_viaduct("train " + written);
  ASSERT_EQ(train.status, 0) << train.err;
  // The run follows the plan: the layout, and the bytes of the fullest rank.
  const auto again = test::run_viaduct("plan --config " + written + " --cluster cpu --json");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["predicted"]["step_seconds"], best["predicted"]["step_seconds"]);
  const auto steps = steps_of(folder / "run" / "metrics.jsonl");
  ASSERT_EQ(steps.size(), 3u);
  const auto& stages = best["predicted"]["peak_memory_bytes"];
  // The report has the planned figures beside the measured ones.
  const std::string metrics = (folder / "run" / "metrics.jsonl").string();
  const std::string beside = "plan --config " + written + " --cluster cpu --measured " + metrics;
  const auto compared = test::run_viaduct(beside + " --json");
  ASSERT_EQ(compared.status, 0) << compared.err;
  const json measured = json::parse(compared.out)["measured"];
  EXPECT_EQ(measured["steps"], 2) << "the first step does not count";
  EXPECT_EQ(measured["simulated"], false);
  const json& step = measured["figures"][0];
  EXPECT_EQ(step["planned"], best["predicted"]["step_seconds"]);
  EXPECT_DOUBLE_EQ(
      step["measured"],
      (steps[1]["step_seconds"].get<double>() + steps[2]["step_seconds"].get<double>()) / 2);
  EXPECT_EQ(measured["figures"][2]["difference"], 0) << "memory is exact";
  const auto table = test::run_viaduct(beside);
  EXPECT_THAT(table.out, AllOf(HasSubstr("planned"), HasSubstr("peak memory"), HasSubstr("+0.0 %"),
                               HasSubstr("the median of 2 steps")));
  EXPECT_EQ(steps.back()["peak_memory_bytes"].get<int64_t>(),
            std::max_element(stages.begin(), stages.end())->get<int64_t>());
}

}  // namespace
}  // namespace viaduct
