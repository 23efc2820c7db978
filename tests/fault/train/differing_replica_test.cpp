// Copies of the weights that differ between data-parallel ranks are found and named, and the run
// ends on all ranks; equal copies have no effect.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/error.h"
#include "engine/replica_check.h"
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

/// The error of each rank's run. After step `at` (counted by the loop's calls between steps) one
/// bit of a weight of rank `bad` changes.
std::vector<std::string> errors(const Overrides& overrides, int bad, int at) {
  const RunSetup setup =
      setup_of(tiny_run() +
               Overrides{"dist.ranks=2", "dist.threads_per_rank=1", "train.train_iters=6",
                         "dist.distributed_timeout_minutes=1"} +
               overrides);
  std::vector<std::string> texts(2);
  const auto train = [&] {
    run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
      const int number = world->rank();
      const RankDevice rank = make_rank_device(setup.config.dist);
      Trainer* running = nullptr;
      TrainerHooks hooks;
      hooks.stop_requested = [&] {
        if (number == bad && running->state().step == at) {
          const Parameter& parameter = *running->engine().store().parameters()[2];
          running->engine().store().finish_gathers();
          const Tensor weight = running->engine().store().weight(parameter);
          auto* bits = static_cast<uint8_t*>(weight.raw());
          bits[2] ^= 0x20;  // of the mantissa, high enough that rounding does not hide it
        }
        return false;
      };
      Trainer trainer(setup, *rank.device, rank.ops, hooks, std::move(world));
      running = &trainer;
      try {
        trainer.run();
      } catch (const Error& error) {
        texts[static_cast<size_t>(number)] = error.what();
      }
    });
  };
  try {
    train();
  } catch (const Error&) {  // the first rank's error, rethrown
    EXPECT_THAT(texts, testing::Each(testing::Not(testing::IsEmpty())));
  }
  return texts;
}

const Overrides kReplicated{"ddp.use_distributed_optimizer=false",
                            "train.check_weight_hash_across_dp_replicas_interval=2"};

TEST(DifferingReplica, StopsTheRunAndIsNamed) {
  for (const int bad : {0, 1}) {
    // Changed after step 3, and checked after step 4.
    EXPECT_THAT(
        errors(kReplicated, bad, 3),
        AllOf(SizeIs(2), Each(AllOf(HasSubstr("step 4: rank 1: weight "), HasSubstr("blocks.0"),
                                    HasSubstr("first data-parallel rank")))));
  }
}

TEST(DifferingReplica, CopiesThatAgreeAreLeftAlone) {
  EXPECT_THAT(errors(kReplicated, -1, 0), Each(IsEmpty()));
  EXPECT_THAT(errors({"train.check_weight_hash_across_dp_replicas_interval=1",
                      "mixed_precision=bf16_mixed", "ddp.overlap_param_gather=true"},
                     -1, 0),
              Each(IsEmpty()));
}

TEST(DifferingReplica, NobodyLooksWithoutTheKnob) {
  EXPECT_THAT(errors({"ddp.use_distributed_optimizer=false"}, 1, 3), Each(IsEmpty()));
}

TEST(DifferingReplica, LookingChangesNothing) {
  const Overrides run = tiny_run() + Overrides{"train.train_iters=4"};
  EXPECT_EQ(train_run(run),
            train_run(run + Overrides{"train.check_weight_hash_across_dp_replicas_interval=1"}));
}

}  // namespace
}  // namespace viaduct
