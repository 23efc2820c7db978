// Memory of the head's options, from dry runs: kept logits, deferred weight gradients.

#include <gtest/gtest.h>

#include "engine/dry_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kTokens = 64, kHiddenSize = 32;  // of a micro-batch of tiny_run

int64_t peak(const Overrides& more, int rank = 0) {
  return dry_run(setup_of(tiny_run() + Overrides{"train.global_batch_size=8"} + more), {rank})
      .peak.bytes;
}

TEST(HeadMemory, DeferredMicroBatchesHoldNormedTokensAndGradientsOfLogits) {
  const auto deferred = [](const std::string& limit) {
    return peak({"dist.ranks=2", "model.pipeline_model_parallel_size=2",
                 "comm_overlap.defer_embedding_wgrad_compute=true",
                 "comm_overlap.wgrad_deferral_limit=" + limit},
                1);
  };
  const int64_t one = kTokens * (64 + kHiddenSize) * 4, batch = 4096;  // ids, targets …
  const int64_t second = deferred("2") - deferred("1"), third = deferred("3") - deferred("2");
  EXPECT_GE(second, one);
  EXPECT_LT(second, one + batch);
  EXPECT_EQ(third, second);
  EXPECT_EQ(deferred("0"), deferred("4")) << "0: all four";
}

// A vocabulary of 16384: logits have 4 MiB in FP32, half of that in BF16, and determine the peak.
TEST(HeadMemory, KeptLogits) {
  for (const auto& [recipe, bytes] : {std::pair{"fp32", 4}, std::pair{"bf16_mixed", 2}}) {
    const Overrides large{"model.vocab_size=16384", std::string("mixed_precision=") + recipe};
    const int64_t kept = peak(large + Overrides{"model.recompute_logits=false"});
    EXPECT_EQ(peak(large), kept) << "auto: they are few";
    // Recomputed logits are one chunk in FP32, plus its gradient in BF16.
    const int64_t logits = kTokens * 16384, again = logits * (bytes == 4 ? 4 : 4 + 2);
    const int64_t other = peak(large + Overrides{"model.recompute_logits=true"});
    EXPECT_NEAR(static_cast<double>(other - kept), static_cast<double>(again - logits * bytes),
                0.1 * static_cast<double>(logits));
  }
}

}  // namespace
}  // namespace viaduct
