// Errors for unknown words on the command line.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/command.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Usage, AWrongNestedVerbNamesTheRightOnes) {
  const auto near = test::run_viaduct("data tokenise --input x");
  EXPECT_EQ(near.status, 2);
  EXPECT_THAT(near.err,
              HasSubstr("viaduct data: no subcommand \"tokenise\"; did you mean tokenize?; "
                        "there are tokenize, chat, inspect, samples, merge"));
  const auto far = test::run_viaduct("bench everything");
  EXPECT_EQ(far.status, 2);
  EXPECT_THAT(far.err, AllOf(HasSubstr("; there are "), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(test::run_viaduct("data pack").err, HasSubstr("dataset.packed_sequence_size"));
}

TEST(Usage, HelpShowsTheOptionsOfACommandBeforeItsOverrides) {
  for (const char* command : {"generate", "chat", "eval", "train", "probe"}) {
    const std::string help = test::run_viaduct(std::string(command) + " --help").out;
    const size_t options = help.find("\nOptions:"), arguments = help.find("\nPositionals:");
    ASSERT_NE(options, help.npos) << command;
    ASSERT_NE(arguments, help.npos) << command;
    EXPECT_LT(options, arguments) << command;
    EXPECT_LT(arguments, help.find("Example:")) << command;
  }
}

TEST(Usage, AMisspeltOptionNamesTheRightOne) {
  const auto train = test::run_viaduct("train x.yaml --dryrun");
  EXPECT_EQ(train.status, 2);
  EXPECT_THAT(train.err, HasSubstr("--dryrun: did you mean --dry-run?"));
  EXPECT_THAT(test::run_viaduct("data tokenize --input x --tokeniser=y --output z").err,
              HasSubstr("--tokeniser: did you mean --tokenizer?"));
  EXPECT_THAT(test::run_viaduct("report run --output page.html").err,
              HasSubstr("--output: did you mean --out?"));
}

TEST(Usage, AWrongNumberNamesTheRange) {
  const auto err = [](const std::string& words) {
    const auto result = test::run_viaduct(words);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_EQ(err("plan --global-batch -8"),
            "viaduct: error: --global-batch: expected a positive number, found -8\n");
  EXPECT_EQ(err("schedule --pp 2 --microbatches 4 --wgrad-deferral-limit -1"),
            "viaduct: error: --wgrad-deferral-limit: expected a number of at least 0, found -1\n");
  EXPECT_EQ(
      err("tokenizer train --input x --output y --vocab-size many"),
      "viaduct: error: Could not convert: --vocab-size = many; expected a whole number that is "
      "not too large\n");
}

TEST(Usage, OutputsNeedAName) {
  const test::TemporaryFolder folder;
  const std::string tokenizer = test::test_data("tokenizer/gpt2").string(),
                    text = (folder / "text").string();
  write_file_atomically(text, "some text");
  const auto slash = test::run_viaduct("data tokenize --input " + text + " --tokenizer " +
                                       tokenizer + " --output " + folder.path().string() + "/");
  EXPECT_EQ(slash.status, 2);
  EXPECT_THAT(slash.err, HasSubstr("names a folder; expected what the names of the files begin"));
  const auto below = test::run_viaduct("data tokenize --input " + text + " --tokenizer " +
                                       tokenizer + " --output " + text + "/data");
  EXPECT_EQ(below.status, 1);
  EXPECT_THAT(below.err, HasSubstr("cannot make the folder " + text));
}

TEST(Usage, NamesOfOutputsAreCheckedFirst) {
  const std::string longer(250, 'c');
  const auto usage = [](const std::string& words) {
    const auto result = test::run_viaduct(words);
    EXPECT_EQ(result.status, 2) << words;
    return result.err;
  };
  for (const char* words :
       {"convert --from x --to ", "tokenizer train --input x --vocab-size 300 --output ",
        "data tokenize --input x --tokenizer x --output ", "probe --model x --batch x --out ",
        "report x --out ", "schedule --pp 2 --microbatches 2 --svg "}) {
    EXPECT_THAT(usage(words + std::string("''")),
                HasSubstr("expected a name of what is to be written"));
    EXPECT_THAT(usage(words + longer),
                HasSubstr("expected a name of at most 231 bytes, found one of 250"));
  }
}

// Variables of a launcher that is not there: no process of rank 0 would report.
TEST(Usage, AStrayRankIsTold) {
  test::RunProcess process(
      test::viaduct_binary(), {"train", "model.family=llama"},
      {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29511"});
  EXPECT_EQ(process.finish(), 2);
  EXPECT_THAT(process.err(), HasSubstr("error: "));
}

TEST(Usage, AMissingPathIsNamedWithTheNearestOne) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "plays.jsonl", "{}");
  const std::string near = (folder / "plays.jsonl").string(),
                    path = (folder / "play.jsonl").string(),
                    model = test::test_data("golden/llama/model").string(),
                    tokenizer = test::test_data("tokenizer/gpt2").string();
  for (const std::string& words : std::vector<std::string>{
           "train " + path, "report " + path, "convert --from " + path + " --to x",
           "eval --model " + path + " --data x", "eval --model " + model + " --data " + path,
           "generate --prompt x --model " + path,
           "generate --model " + model + " --prompt-file " + path,
           "probe --model " + path + " --batch x --out " + near + ".out",
           "probe --model " + model + " --out " + near + ".out --batch " + path,
           "data tokenize --output x --tokenizer " + path + " --input x",
           "data tokenize --output x --tokenizer " + tokenizer + " --input " + path,
           "tokenizer encode --tokenizer " + path, "tokenizer decode --tokenizer " + path,
           "tokenizer train --vocab-size 300 --output x --input " + path, "plan --score " + path,
           "plan --cluster dgx-h100 dist.ranks=8 model.hf_config=" + path,
           "train --dry-run checkpoint.pretrained_checkpoint=" + path}) {
    SCOPED_TRACE(words);
    const auto result = test::run_viaduct(words);
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("viaduct: error: "), HasSubstr("play.jsonl"),
                                  HasSubstr("; nearest: " + near)));
  }
  const auto nowhere =
      test::run_viaduct("convert --to x --from " + folder.path().string() + "/a/b");
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("there is no folder " + folder.path().string() + "/a"));
}

TEST(Usage, CommandsWithoutRanksRefuseSeveralProcesses) {
  for (const test::Overrides& words :
       {test::Overrides{"convert", "--from", "a", "--to", "b"},
        test::Overrides{"tokenizer", "encode", "--tokenizer", "t"}}) {
    test::RunProcess process(
        test::viaduct_binary(), words,
        {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2"});
    EXPECT_EQ(process.finish(), 2);
    EXPECT_THAT(process.err(), HasSubstr("OMPI_COMM_WORLD_SIZE=2 is set: start it without"));
  }
}

TEST(Usage, ScheduleTakesTheConfigurationsWord) {
  const std::string sizes = "schedule --pp 2 --microbatches 4 --kind ";
  EXPECT_EQ(test::run_viaduct(sizes + "zero_bubble").out, test::run_viaduct(sizes + "zb-h1").out);
  EXPECT_THAT(test::run_viaduct("schedule --help").out, HasSubstr("--kind zero_bubble"));
}

}  // namespace
}  // namespace viaduct
