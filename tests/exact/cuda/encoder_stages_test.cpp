// Stages of an encoder in front of virtual stages, each rank with a GPU of its own: every
// connection of NCCL that messages take is made before the first step, also that from the decoder's
// last stage to its first, which has the encoder's in front of it. On the doubles.

#include <gtest/gtest.h>

#include "exact/cuda/launched_run.h"

namespace viaduct {
namespace {

using namespace test;

TEST(EncoderStages, SendOverConnectionsThatAreMadeBeforeTheStep) {
  const RunSetup setup = setup_of(
      test::run_of(4) + Overrides{"model.family=t5", "model.encoder_seq_length=16",
                                  "model.encoder_pipeline_model_parallel_size=1",
                                  "model.pipeline_model_parallel_size=3", "model.num_layers=4",
                                  "model.pipeline_model_parallel_layout=E|t|t|t|t|L",
                                  "train.global_batch_size=3", "train.train_iters=1"});
  const Outcomes over_nccl = started_together(setup, 4);
  EXPECT_GT(nccl_double::calls(), 0);
  const Outcomes over_hosts = started_together(setup, 1);
  EXPECT_EQ(nccl_double::calls(), 0);
  ASSERT_EQ(over_nccl.size(), 4U);
  EXPECT_TRUE(over_nccl == over_hosts) << "the double adds in the order of ranks, as hosts do";
}

}  // namespace
}  // namespace viaduct
