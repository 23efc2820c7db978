// Errors for unknown words on the command line.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/command.h"
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
                        "there are tokenize, inspect, samples, merge"));
  const auto far = test::run_viaduct("bench everything");
  EXPECT_EQ(far.status, 2);
  EXPECT_THAT(far.err, AllOf(HasSubstr("; there are "), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(test::run_viaduct("data pack").err, HasSubstr("not implemented yet"));
}

TEST(Usage, AMisspeltOptionNamesTheRightOne) {
  const auto train = test::run_viaduct("train x.yaml --dryrun");
  EXPECT_EQ(train.status, 2);
  EXPECT_THAT(train.err, HasSubstr("--dryrun: did you mean --dry-run?"));
  EXPECT_THAT(test::run_viaduct("data tokenize --input x --tokeniser=y --output z").err,
              HasSubstr("--tokeniser: did you mean --tokenizer?"));
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
