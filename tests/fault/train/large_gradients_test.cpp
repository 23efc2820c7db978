// ddp.check_for_large_grads: a rank whose gradient suddenly is a thousand times the usual one stops
// the run before the update, and is named on all ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Ends {
  std::vector<std::string> errors;  // of each rank
  std::vector<int64_t> updates;
};

/// After 101 steps the head of rank 1 is multiplied by 1000.
Ends run(const Overrides& overrides) {
  const RunSetup setup =
      setup_of(tiny_run() +
               Overrides{"dist.ranks=2", "dist.threads_per_rank=1", "train.train_iters=104",
                         "model.num_layers=1", "model.seq_length=8", "optimizer.lr=1e-4",
                         "dist.distributed_timeout_minutes=1", "logger.log_throughput=false"} +
               overrides);
  Ends ends{std::vector<std::string>(2), std::vector<int64_t>(2)};
  const auto train = [&] {
    run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
      const auto number = static_cast<size_t>(world->rank());
      const RankDevice rank = make_rank_device(setup.config.dist);
      Trainer* running = nullptr;
      TrainerHooks hooks;
      hooks.stop_requested = [&] {
        if (running->state().step != 101) return false;
        ParameterStore& store = running->engine().store();
        store.finish_gathers();  // on all ranks
        if (number != 1) return false;
        const Tensor head = store.weight(*store.parameters().back());
        for (int64_t i = 0; i < head.elements(); ++i) head.data<float>()[i] *= 1000;
        return false;
      };
      Trainer trainer(setup, *rank.device, rank.ops, hooks, std::move(world));
      running = &trainer;
      try {
        trainer.run();
      } catch (const Error& error) {
        ends.errors[number] = error.what();
      }
      ends.updates[number] = trainer.state().updates;
    });
  };
  try {
    train();
  } catch (const Error&) {  // the first rank's error, rethrown
    EXPECT_THAT(ends.errors, testing::Each(testing::Not(testing::IsEmpty())));
  }
  return ends;
}

TEST(LargeGradientsOfARun, StopItBeforeTheUpdate) {
  const Ends ends = run({"ddp.check_for_large_grads=true"});
  EXPECT_THAT(ends.errors,
              AllOf(SizeIs(2), Each(AllOf(HasSubstr("update 102: rank 1: gradient of bucket 0"),
                                          HasSubstr("first 100 updates")))));
  EXPECT_THAT(ends.updates, Each(101));
}

TEST(LargeGradientsOfARun, AreAppliedWithoutTheCheck) {
  const Ends ends = run({});
  EXPECT_THAT(ends.errors, Each(IsEmpty()));
  EXPECT_THAT(ends.updates, Each(104));
}

TEST(LargeGradientsOfARun, LookingChangesNothing) {
  for (const char* wire : {"ddp.grad_reduce_in_fp32=true", "ddp.grad_reduce_in_fp32=false"}) {
    const Overrides two =
        tiny_run() + Overrides{"train.train_iters=2", "mixed_precision=bf16_mixed", wire};
    EXPECT_EQ(train_run(two), train_run(two + Overrides{"ddp.check_for_large_grads=true"}));
  }
}

}  // namespace
}  // namespace viaduct
