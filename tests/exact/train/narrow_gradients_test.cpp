// Main gradients in the weights' format: products round to them as the sum of an FP32 temporary is
// rounded, so settings that decide where a product is written change no bit.

#include <gtest/gtest.h>

#include "support/field_walk.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// The run's counters and all tensors of all ranks.
std::string numbers_of(const Overrides& overrides) {
  const RunText text = run_text(overrides, false);
  EXPECT_FALSE(text.failed) << text.said;
  return text.numbers;
}

TEST(NarrowGradients, ProductsRoundThemLikeATemporary) {
  const Overrides narrow{"mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false",
                         "train.micro_batch_size=1", "train.train_iters=3"};
  for (const char* model : {"llama", "gpt2", "mixtral"}) {
    for (const Overrides& layout : std::vector<Overrides>{
             {},
             {"dist.ranks=2", "ddp.data_parallel_sharding_strategy=optim_grads"},
             {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
             {"mixed_precision=bf16_with_mxfp8_mixed"},
             {"ddp.param_name_patterns_for_fp32_local_accumulation=['*mlp*']"}}) {
      SCOPED_TRACE(std::string(model) + " " + (layout.empty() ? "" : layout.back()));
      const Overrides run = tiny_run(model) + narrow + layout;
      const std::string written = numbers_of(run);
      EXPECT_EQ(numbers_of(run + Overrides{"model.gradient_accumulation_fusion=false"}), written);
      EXPECT_NE(
          numbers_of(run + Overrides{"ddp.grad_reduce_in_fp32=true",
                                     "ddp.param_name_patterns_for_fp32_local_accumulation=[]"}),
          written);
    }
  }
}

// Of four micro-batches: the sum, and not the last one's.
TEST(NarrowGradients, MicroBatchesAddUp) {
  for (const char* model : {"llama", "mixtral"}) {
    const auto norm = [&](const char* fp32) {
      const TemporaryFolder folder;
      (void)train_run(tiny_run(model) + Overrides{"mixed_precision=bf16_mixed",
                                                  std::string("ddp.grad_reduce_in_fp32=") + fp32,
                                                  "train.micro_batch_size=1", "train.train_iters=1",
                                                  "checkpoint.save=" + (folder / "run").string()});
      return metric(folder / "run/metrics.jsonl", "grad_norm").at(0);
    };
    const double wide = norm("true");
    EXPECT_NEAR(norm("false"), wide, 0.01 * wide) << model;
  }
}

}  // namespace
}  // namespace viaduct
