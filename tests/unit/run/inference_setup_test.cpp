// The number format of commands that only run forwards.

#include "run/inference_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/paths.h"

namespace viaduct {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

RunSetup inference_of(const std::string& folder, std::vector<std::string> overrides = {}) {
  overrides.push_back("dist.threads_per_rank=1");
  return prepare_inference(
      {.model = test::test_data("golden/llama_tied") / folder, .overrides = std::move(overrides)});
}

TEST(InferenceSetup, ComputesInTheTypeOfTheWeightsAndSaysSo) {
  const RunSetup narrow = inference_of("model_sharded_bf16");
  EXPECT_EQ(narrow.config.mixed_precision.recipe, RecipeName::bf16_mixed);
  EXPECT_THAT(narrow.notes, Contains(HasSubstr("computing in BF16, the type of the weights")));
  const RunSetup full = inference_of("model");
  EXPECT_EQ(full.config.mixed_precision.recipe, RecipeName::fp32);
  EXPECT_THAT(full.notes, Not(Contains(HasSubstr("computing in"))));
}

TEST(InferenceSetup, AGivenTypeComesFirst) {
  const RunSetup full = inference_of("model_sharded_bf16", {"mixed_precision=fp32"});
  EXPECT_EQ(full.config.mixed_precision.recipe, RecipeName::fp32);
  EXPECT_THAT(full.notes, Not(Contains(HasSubstr("computing in"))));
}

}  // namespace
}  // namespace viaduct
