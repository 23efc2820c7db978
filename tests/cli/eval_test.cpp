// `viaduct eval` as scripts use it, on a model with random weights.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/conversations.h"
#include "support/language_model.h"
#include "support/training.h"

namespace viaduct {
namespace {

using nlohmann::json;

class EvalCommand : public testing::Test {
 protected:
  using Result = test::CommandResult;
  EvalCommand() {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "the cat and the hat and the rat\n";
    write_file_atomically(model_ / "text", text);
  }
  Result run(const std::string& arguments, const std::string& data = "text") {
    return test::run_viaduct("eval --model " + model_.path().string() + " --data " +
                             (model_ / data).string() + " dist.threads_per_rank=1 " + arguments);
  }
  void expect(const Result& result, int status, const char* text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }

  test::LanguageModel model_;
};

TEST_F(EvalCommand, PrintsAScoreAsATableOrJson) {
  const Result result = run("--sequence-length 32 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const json score = json::parse(result.out);
  EXPECT_EQ(score.size(), 7u);
  EXPECT_EQ(score.at("data_tokens"), score.at("tokens").get<int64_t>() + 1);
  EXPECT_TRUE(score.at("conversations").is_null());
  EXPECT_DOUBLE_EQ(score.at("perplexity"), std::exp(score.at("loss").get<double>()));
  EXPECT_GT(score.at("bits_per_byte"), 0);
  EXPECT_GT(score.at("tokens"), 100);
  EXPECT_GT(score.at("seconds"), 0);
  const Result table = run("--sequence-length 32");
  EXPECT_NE(table.out.find(fmt::format("{:.6f}", score.at("loss").get<double>())),
            std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("bits per byte"), std::string::npos);
}

TEST_F(EvalCommand, ATextAndItsDataSetHaveTheSameScore) {
  ASSERT_EQ(test::run_viaduct("data tokenize --no-append-eod --input " +
                              (model_ / "text").string() + " --tokenizer " +
                              model_.path().string() + " --output " + (model_ / "data").string())
                .status,
            0);
  const json text = json::parse(run("--sequence-length 32 --stride 16 --json").out),
             data = json::parse(run("--sequence-length 32 --stride 16 --json", "data").out);
  EXPECT_EQ(text.at("tokens"), data.at("tokens"));
  EXPECT_EQ(text.at("loss"), data.at("loss"));
  EXPECT_EQ(text.at("bits_per_byte"), data.at("bits_per_byte"));
  // A file of the data set is not text, and its ids belong to this tokenizer only.
  expect(run("--sequence-length 32", "data.bin"), 2, "half of a data set");
  std::filesystem::rename(model_ / "data.bin", model_ / "binary");
  expect(run("--sequence-length 32", "binary"), 1, "binary");
}

TEST_F(EvalCommand, RunsOnSeveralRanks) {
  const json one = json::parse(run("--sequence-length 32 --json").out),
             two = json::parse(run("--sequence-length 32 --json dist.ranks=2 "
                                   "model.tensor_model_parallel_size=2")
                                   .out);
  EXPECT_EQ(one.at("tokens"), two.at("tokens"));
  EXPECT_NEAR(one.at("loss").get<double>(), two.at("loss").get<double>(), 1e-5);
}

TEST_F(EvalCommand, ConversationsAreScoredByTheirMask) {
  test::write_conversations(model_ / "chat",
                            test::conversations_of(test::random_lengths(20, 4, 30), 250));
  const auto tune = [&](const std::string& rows) {
    return test::run_viaduct(
        "train train.skip_train=true checkpoint.pretrained_checkpoint=" + model_.path().string() +
        " 'dataset.blend_per_split=[null,[" + (model_ / "chat").string() +
        "],null]' validation.full_validation=true mixed_precision=fp32 "
        "dist.threads_per_rank=1 checkpoint.save=" +
        (model_ / "run").string() + " " + rows);
  };
  ASSERT_EQ(tune("dataset.packed_sequence_size=64").status, 0);
  const std::vector<double> loss =
      test::metric(model_ / "run" / "metrics.jsonl", "validation_loss");
  ASSERT_EQ(loss.size(), 1u);
  for (const char* rows : {"", "dataset.packed_sequence_size=null",
                           "dist.ranks=2 model.tensor_model_parallel_size=2", "dist.ranks=2"}) {
    const Result result = run(std::string("--sequence-length 64 --json ") + rows, "chat");
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err.find("warning"), std::string::npos) << result.err;
    const json score = json::parse(result.out);
    EXPECT_NEAR(score.at("loss").get<double>(), loss[0], 1e-6 * loss[0]) << rows;
    EXPECT_EQ(score.at("conversations"), 20);
    EXPECT_LT(score.at("tokens"), score.at("data_tokens"));
  }
  const Result table = run("--sequence-length 64", "chat");
  EXPECT_NE(table.out.find("conversations"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find(" of "), std::string::npos) << table.out;
  expect(run("--sequence-length 64 --stride 8", "chat"), 2, "--stride");
  expect(run("--sequence-length 16", "chat"), 2, "longer than a row of 16 tokens");
  expect(run("--sequence-length 16", "chat"), 2, "Expected rows for it (--sequence-length ");
  expect(run("model.seq_length=16", "chat"), 2, "Expected rows for it (model.seq_length=");
  expect(run("--sequence-length 32 dataset.packed_sequence_size=32"), 2, "for conversations");
  // The model has 128 positions: what the message expects is done.
  test::write_conversations(model_ / "long", test::conversations_of({20, 150}, 250));
  const std::pair<const char*, std::string> kAdvice[] = {
      {"", "dataset.packing_split=true"},
      {"dataset.packed_sequence_size=null ",
       "dataset.packed_sequence_size=128 dataset.packing_split=true"}};
  for (const auto& [rows, advice] : kAdvice) {
    expect(run(rows, "long"), 2, ("Expected " + advice + ", which cuts it").c_str());
    const Result cut = run(advice, "long");
    EXPECT_EQ(cut.status, 0) << cut.err;
  }
  // Without the mask they are one text, and the command says so.
  for (const char* ending : {"chat.mask.idx", "chat.mask.bin"})
    std::filesystem::remove(model_ / ending);
  const Result text = run("--sequence-length 64 --json", "chat");
  EXPECT_NE(text.err.find("read as one text"), std::string::npos) << text.err;
  EXPECT_TRUE(json::parse(text.out).at("conversations").is_null());
}

// As `viaduct train` of the same data.
TEST_F(EvalCommand, ConversationsWithoutAnythingToLearnAreRefused) {
  const auto words = [&](const Result& result, const std::string& begin) {
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(result.out, "");
    const size_t at = result.err.find(begin);
    EXPECT_NE(at, std::string::npos) << result.err;
    return at == std::string::npos ? "" : result.err.substr(at);
  };
  const auto expect_same = [&](const std::string& begin) {
    const std::string data = (model_ / "chat").string();
    const Result trained = test::run_viaduct(
        "train train.skip_train=true checkpoint.pretrained_checkpoint=" + model_.path().string() +
        " 'dataset.blend_per_split=[null,[" + data +
        "],null]' model.seq_length=64 checkpoint.save=" + (model_ / "run").string());
    const std::string evaluated = words(run("--sequence-length 64", "chat"), begin);
    EXPECT_EQ(evaluated, words(trained, begin));
    // A dry run says the same.
    EXPECT_EQ(words(run("--sequence-length 64 --dry-run", "chat"), begin), evaluated);
  };
  auto conversations = test::conversations_of({8, 9}, 250);
  for (test::MaskedTokens& one : conversations) one.mask.assign(one.tokens.size(), 0);
  test::write_conversations(model_ / "chat", conversations);
  expect_same("no token of the valid split is scored");
  std::filesystem::remove(model_ / "chat.mask.bin");
  expect_same("data set " + (model_ / "chat").string() + ": it has a part of a mask, but ");
}

TEST_F(EvalCommand, ADryRunStartsNothing) {
  std::filesystem::remove(model_ / "model.safetensors");
  const Result result = run("--sequence-length 32 --dry-run --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const json stage = json::parse(result.out).at("stages").at(0);
  EXPECT_GT(stage.at("memory_by_owner").at("weights"), 0);
  EXPECT_EQ(stage.at("memory_by_owner").count("moments"), 0u);
}

TEST_F(EvalCommand, SaysWhatIsWrong) {
  expect(run("--sequence-length 32 --stride 33"), 2, "--stride");
  expect(run("--sequence-length 4096"), 2, "the model's 128 learned positions");
  expect(run("--sequence-length 0"), 2, "sequence-length");
  expect(run("train.train_iters=3"), 2, "does not read train.train_iters");
  expect(run("--sequence-length 33 dist.ranks=2 model.context_parallel_size=2"), 2,
         "context_parallel_size");
  expect(run("", "nothing"), 2, "neither");
  std::filesystem::remove(model_ / "model.safetensors");
  expect(run("--sequence-length 32"), 1, "safetensors");
}

}  // namespace
}  // namespace viaduct
