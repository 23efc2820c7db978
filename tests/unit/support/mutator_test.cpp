#include "support/mutator.h"

#include <gtest/gtest.h>

#include <set>

namespace viaduct::fuzz {
namespace {

TEST(Mutator, InputsDependOnSeedAndIterationOnly) {
  Mutator forward({"{\"a\": 17}", "[1,2,3]"}, 1000), backward({"{\"a\": 17}", "[1,2,3]"}, 1000);
  std::vector<std::string> inputs;
  for (uint64_t i = 0; i < 50; ++i) inputs.push_back(forward.input(7, i));
  for (uint64_t i = 50; i-- > 0;) EXPECT_EQ(backward.input(7, i), inputs[i]);
  EXPECT_NE(backward.input(8, 0), inputs[0]);
}

TEST(Mutator, InputsDifferAndStayBelowTheLimit) {
  Mutator mutator({std::string(60, 'x'), ""}, 64);
  std::set<std::string> inputs;
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::string input = mutator.input(1, i);
    EXPECT_LE(input.size(), 64u);
    inputs.insert(input);
  }
  EXPECT_GT(inputs.size(), 500u);
}

}  // namespace
}  // namespace viaduct::fuzz
