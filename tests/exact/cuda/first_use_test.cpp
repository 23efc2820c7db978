// Ranks load and make ready what a step uses before their first operation with each other
// (ops/cuda/launch/load_kernels.h, prepare_libraries.h): on the doubles, where a first use waits
// for the device.

#include <gtest/gtest.h>

#include <atomic>

#include "exact/cuda/launched_run.h"

namespace viaduct {
namespace {

using namespace test;

struct FirstUses {
  int64_t before_steps = 0, in_steps = 0;
};

FirstUses first_uses_of(const Overrides& layout) {
  const RunSetup setup = setup_of(run_of(2) + layout);
  cuda_host::reset_runtime({.seed = 1, .devices = 2, .lazy_loading = true});
  nccl_double::reset({.seed = 1});
  std::atomic<int64_t> before = 0;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    world->host().most(0);
    if (world->rank() == 0) before = cuda_host::runtime_counts().first_uses;
    world->host().most(0);
    trainer.run();
  });
  EXPECT_GT(nccl_double::calls(), 0);
  return {before, cuda_host::runtime_counts().first_uses - before};
}

TEST(FirstUse, ComesBeforeTheStepsOfARun) {
  for (const Overrides& layout :
       {Overrides{"model.tensor_model_parallel_size=2", "mixed_precision=bf16_mixed"},
        Overrides{"model.pipeline_model_parallel_size=2"},
        Overrides{"ddp.data_parallel_sharding_strategy=optim_grads_params",
                  "mixed_precision=bf16_mixed", "model.attention_backend=fused"}}) {
    SCOPED_TRACE(layout.front());
    const FirstUses uses = first_uses_of(layout);
    EXPECT_GT(uses.before_steps, 0) << "kinds of products";
    EXPECT_EQ(uses.in_steps, 0);
  }
}

}  // namespace
}  // namespace viaduct
