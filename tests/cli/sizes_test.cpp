// Absurd sizes are one immediate error with exit status 2.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/command.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Sizes : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Sizes, AreRefused) {
  std::string arguments = "train --dry-run";
  for (const std::string& override : tiny_run()) arguments += " '" + override + "'";
  const auto& [override, expected] = GetParam();
  const CommandResult result = run_viaduct(arguments + " " + override);
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr(expected), Not(HasSubstr("vector"))));
}

INSTANTIATE_TEST_SUITE_P(
    All, Sizes,
    testing::Values(
        std::pair("train.global_batch_size=2147483648",
                  "train.global_batch_size: expected 1 to 16777216, found 2147483648"),
        std::pair("model.num_layers=2147483648",
                  "model.num_layers: expected 1 to 16384, found 2147483648"),
        std::pair("model.num_layers=9223372036854775807", "expected 1 to 16384"),
        std::pair("model.seq_length=9223372036854775807", "model.seq_length: expected 1 to"),
        std::pair("train.micro_batch_size=1048576 train.global_batch_size=1048576 "
                  "model.seq_length=1048576",
                  "tokens at a time"),
        std::pair("model.num_layers=16384 model.hidden_size=4194304 model.ffn_hidden_size=4194304",
                  "parameters, at most 1e+16"),
        std::pair("train.global_batch_size=16777216 train.micro_batch_size=1",
                  "passes through layers")));

TEST(Sizes, OperandsThatDoNotFitIntoMemoryAreRefused) {
  for (const char* arguments :
       {"bench gemm --m 16777216 --n 16777216 --k 1",
        "bench attention --sequence 1048576 --batch 1024 --heads 1048576 --head-dim 1024",
        "bench collective --bytes 1099511627776 --ranks 64"}) {
    const CommandResult result = run_viaduct(arguments);
    EXPECT_EQ(result.status, 2) << arguments << result.err;
    EXPECT_THAT(result.err, HasSubstr("the operands take"));
  }
}

TEST(Sizes, ARunThatDoesNotFitIntoMemoryIsRefused) {
  std::string arguments = "train";
  for (const std::string& override : tiny_run()) arguments += " '" + override + "'";
  const CommandResult result =
      run_viaduct(arguments + " model.hidden_size=1048576 model.ffn_hidden_size=1048576");
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("of memory"));
}

}  // namespace
}  // namespace viaduct
