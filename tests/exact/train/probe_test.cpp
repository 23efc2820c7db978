// `probe` gives the same bits with any number of threads.

#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/instruction_set.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

TEST(ExactProbe, ThreadsDoNotChangeABit) {
  for (const char* name : {"gpt2", "llama_tied", "qwen2", "qwen3", "gemma2", "yarn"}) {
    for (const char* recipe : {"fp32", "bf16_mixed"}) {
      ProbeSettings settings;
      settings.run.layers.precision = precision_recipe(recipe);
      settings.hidden = settings.weights = true;
      const std::filesystem::path folder = test::test_data(std::string("golden/") + name);
      const auto probe = [&](int threads) {
        return test::probe_case(folder / "model", folder / "golden.safetensors", settings,
                                test::instruction_set(), threads);
      };
      const auto expected = probe(1);
      for (const int threads : {2, 3}) {
        const auto got = probe(threads);
        ASSERT_EQ(got.size(), expected.size());
        for (const auto& [tensor, values] : expected)
          EXPECT_TRUE(test::bytes_of(got.at(tensor)) == test::bytes_of(values))
              << name << " " << recipe << " " << tensor << " with " << threads << " threads";
      }
    }
  }
}

// If no update follows, masters and moments do not exist; gradients are the same.
TEST(ExactProbe, WithoutMastersGradientsAreTheSame) {
  const std::filesystem::path folder = test::test_data("golden/llama_tied");
  ProbeSettings settings;
  settings.run.layers.precision = precision_recipe("bf16_mixed");
  const auto probe = [&](bool weights) {
    settings.weights = weights;
    return test::probe_case(folder / "model", folder / "golden.safetensors", settings,
                            test::instruction_set(), 2);
  };
  const auto with_masters = probe(true), without = probe(false);
  EXPECT_LT(without.size(), with_masters.size());
  for (const auto& [tensor, values] : without)
    EXPECT_TRUE(test::bytes_of(with_masters.at(tensor)) == test::bytes_of(values)) << tensor;
}

}  // namespace
}  // namespace viaduct
