// viaduct report: makes a plan, trains its configuration, and shows both on one page.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kModel =
    "model.num_layers=2 model.hidden_size=32 model.ffn_hidden_size=64 model.num_attention_heads=4 "
    "model.seq_length=32 model.vocab_size=64 ";

/// Runs `viaduct ARGUMENTS` and writes its output to a file.
void print_into(const std::filesystem::path& file, const std::string& arguments) {
  const auto run = test::run_viaduct(arguments);
  ASSERT_EQ(run.status, 0) << run.err;
  std::ofstream(file) << run.out;
}

std::string in_quotes(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

TEST(ReportCommand, ARunIsShownBesideItsPlan) {
  const test::TemporaryFolder folder;
  const std::string settings =
      kModel + "train.global_batch_size=4 train.micro_batch_size=2 dist.ranks=2 dataset.mock=true ";
  print_into(folder / "plan.json", "plan --cluster cpu --json --timeline " + settings);
  const auto page_of_plan = test::run_viaduct("report " + in_quotes(folder.path()));
  ASSERT_EQ(page_of_plan.status, 0) << page_of_plan.err;
  EXPECT_THAT(read_file(folder / "report.html"),
              AllOf(HasSubstr("Where the time goes"), HasSubstr("One step"), HasSubstr("optimizer"),
                    HasSubstr("saved activations"), Not(HasSubstr("<script"))));
  const auto trained = test::run_viaduct(
      "train " + settings +
      "train.train_iters=4 logger.log_interval=1 checkpoint.save=" + in_quotes(folder.path()));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const auto page = test::run_viaduct("report " + in_quotes(folder.path()) + " --out " +
                                      in_quotes(folder / "run.html"));
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_THAT(read_file(folder / "run.html"),
              AllOf(HasSubstr("Planned against measured"), HasSubstr("4 logged steps, 1 to 4"),
                    HasSubstr("Symptoms"), HasSubstr("hidden_size: 32"),
                    // Planned bytes are exact.
                    HasSubstr("class=\"number\">+0.0 %")));
  // The same input gives the same bytes.
  const std::string before = read_file(folder / "run.html");
  ASSERT_EQ(test::run_viaduct("report " + in_quotes(folder / "metrics.jsonl") + " --plan " +
                              in_quotes(folder / "plan.json") + " --out " +
                              in_quotes(folder / "run.html"))
                .status,
            0);
  EXPECT_EQ(read_file(folder / "run.html"), before);
}

TEST(ReportCommand, ExpertsAreDrawnAndTheirRoutersFiguresAreCharts) {
  const test::TemporaryFolder folder;
  const auto trained = test::run_viaduct(
      "train " + kModel +
      "model.family=mixtral model.num_moe_experts=4 model.moe_aux_loss_coeff=0.01 "
      "model.moe_expert_capacity_factor=1 train.global_batch_size=2 train.micro_batch_size=1 "
      "train.train_iters=3 dataset.mock=true logger.log_interval=1 checkpoint.save=" +
      in_quotes(folder.path()));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const auto page = test::run_viaduct("report " + in_quotes(folder.path()));
  ASSERT_EQ(page.status, 0) << page.err;
  const std::string html = read_file(folder / "report.html");
  EXPECT_THAT(html, AllOf(HasSubstr("<h3>Load of experts</h3>"), HasSubstr("largest load by step"),
                          HasSubstr("entropy by step"), HasSubstr("dropped choices by step"),
                          HasSubstr("balancing loss by step"), HasSubstr("z-loss by step")));
  // A figure that no layer has gets no chart.
  EXPECT_THAT(html, AllOf(Not(HasSubstr("padded rows by step")),
                          Not(HasSubstr("spread of biases by step"))));
}

TEST(ReportCommand, ARunShowsWhereItResumedAndWhichSymptomsAreSeen) {
  const test::TemporaryFolder folder;
  const std::string train = "train " + kModel +
                            "train.global_batch_size=2 train.micro_batch_size=1 dataset.mock=true "
                            "validation.eval_iters=0 logger.log_interval=1 "
                            "optimizer.lr=1e-3 scheduler.lr_warmup_iters=0 checkpoint.save=" +
                            in_quotes(folder.path());
  for (const char* more :
       {" train.train_iters=2", " train.train_iters=4 optimizer.clip_grad=0.5"}) {
    const auto trained = test::run_viaduct(train + more);
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  ASSERT_EQ(test::run_viaduct("report " + in_quotes(folder.path())).status, 0);
  EXPECT_THAT(
      read_file(folder / "report.html"),
      AllOf(HasSubstr("<h3>Loss by step</h3>"), HasSubstr("<h3>Gradient norm by step</h3>"),
            HasSubstr(">resumed, settings changed</text>"),
            HasSubstr("optimizer.clip_grad: was 1, is 0.5"), HasSubstr("<td>not seen</td>")));
}

TEST(ReportCommand, ASearchIsShown) {
  const test::TemporaryFolder folder;
  print_into(
      folder / "search.json",
      "plan --model llama3-8b --cluster dgx-h100 --ranks 2 --global-batch 4 --seq-length 1024 "
      "--top 2 --time-limit 60 --json model.num_layers=2 model.context_parallel_size=1 "
      "model.recompute_granularity=null");
  ASSERT_EQ(test::run_viaduct("report " + in_quotes(folder / "search.json")).status, 0);
  EXPECT_THAT(
      read_file(folder / "report.html"),
      AllOf(HasSubstr("Plan search"), HasSubstr("Candidates"), HasSubstr("Why this layout")));
}

TEST(ReportCommand, InputThatIsNeitherIsRefused) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& arguments, const std::string& text) {
    const auto run = test::run_viaduct("report " + arguments);
    EXPECT_NE(run.status, 0) << arguments;
    EXPECT_THAT(run.err, HasSubstr(text)) << arguments;
    EXPECT_FALSE(std::filesystem::exists(folder / "report.html"));
  };
  refused(in_quotes(folder.path()), "has neither metrics.jsonl");
  refused(in_quotes(folder / "nothing"), "no such file or folder");
  std::ofstream(folder / "other.json") << "{\"a\": 1}";
  refused(in_quotes(folder / "other.json"), "expected the output of viaduct plan --json");
  std::ofstream(folder / "part.json") << "{\"stages\": [], \"gpus\": 1, \"gpu\": \"x\"}";
  refused(in_quotes(folder / "part.json"), "not a complete document of viaduct plan --json");
  refused(in_quotes(folder / "other.json") + " --plan x", "is not a run");
}

}  // namespace
}  // namespace viaduct
