// Ranks load and make ready what a step uses before their first operation with each other
// (ops/cuda/launch/load_kernels.h, prepare_libraries.h): on the doubles, where a first use waits
// for the device.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "device/cuda/cuda_device.h"
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

/// Operations that a GPU has room for at a time; the others wait, and what they wait for must not
/// wait for them. Stages receive and send at once.
TEST(FirstUse, ARunNeedsRoomForFewOperationsAtATime) {
  for (const auto& [layout, room] :
       {std::pair{Overrides{"model.tensor_model_parallel_size=2"}, 1},
        std::pair{Overrides{"model.pipeline_model_parallel_size=2"}, 2},
        std::pair{Overrides{"ddp.data_parallel_sharding_strategy=optim_grads_params"}, 1}}) {
    SCOPED_TRACE(layout.front());
    const RunSetup setup = setup_of(run_of(2) + layout);
    cuda_host::reset_runtime({.seed = 1, .devices = 2, .patience_seconds = 2});
    nccl_double::reset({.seed = 1, .resident = room});
    Outcomes outcomes;
    std::mutex mutex;
    run_ranks(setup.config.dist, {}, training(setup, outcomes, mutex));
    EXPECT_EQ(outcomes.size(), 2u);
    EXPECT_GT(nccl_double::calls(), 0);
  }
}

/// Rank 1 uses code for the first time after its first step, which waits for both GPUs; rank 0
/// would be in its second step by then.
TEST(FirstUse, AfterTheFirstStepMeetsNoOperationOfARankThatIsAhead) {
  const RunSetup setup =
      setup_of(run_of(2) + Overrides{"model.tensor_model_parallel_size=2", "train.train_iters=2"});
  cuda_host::reset_runtime({.seed = 1,
                            .devices = 2,
                            .patience_seconds = 2,
                            .lazy_loading = true,
                            .loads_wait_for_all = true});
  nccl_double::reset({.seed = 1});
  std::atomic<int64_t> late = 0;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    auto& device = dynamic_cast<CudaDevice&>(*rank.device);
    int asked = 0;  // at the start, then after each step
    const auto use = [&] {
      if (world->rank() != 1 || ++asked != 2) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const int64_t before = cuda_host::runtime_counts().first_uses;
      device.launched(kComputeStream);
      cuda_host::enqueue(
          device.handle(kComputeStream), "kernel", [] {}, "late_kernels.cu");
      late = cuda_host::runtime_counts().first_uses - before;
      return false;
    };
    Trainer trainer(setup, device, rank.ops,
                    {.stop_requested = use, .peak_effort = PeakEffort::glance}, world);
    trainer.run();
    EXPECT_EQ(trainer.state().step, 2);
  });
  EXPECT_EQ(late, 1);
}

}  // namespace
}  // namespace viaduct
