// The effect of section checkpoint, and of two settings of section scheduler, on a resumed run.

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/checkpoint_reader.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"
#include "train/run_checkpoint.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// Four steps with dropout, saved after two and after four.
Overrides short_run(const TemporaryFolder& save, const Overrides& more = {}) {
  return tiny_run() +
         Overrides{"train.train_iters=4", "checkpoint.save_interval=2", "model.hidden_dropout=0.1",
                   "checkpoint.save=" + save.path().string()} +
         more;
}
const Overrides kFirstHalf{"train.exit_interval=2"};

/// Trainers of all ranks, loaded as in a run.
void with_trainers(const Overrides& overrides,
                   FunctionRef<void(Trainer& trainer, Communicator& world)> body) {
  const RunSetup setup = setup_of(
      overrides + Overrides{"dist.threads_per_rank=1", "dist.distributed_timeout_minutes=1"});
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    body(trainer, *world);
  });
}

TEST(Fp64, ARunIsSavedInFp64AndResumedBitwise) {
  TemporaryFolder save, other;
  const Overrides wide{"mixed_precision=fp64"};
  const RunOutcome whole = train_run(short_run(other, wide));
  train_run(short_run(save, wide) + kFirstHalf);
  const auto half = open_checkpoint(save.path());
  for (const char* name : {"model.norm.weight", "optimizer.exp_avg/model.norm.weight"}) {
    ASSERT_NE(half->find(name), nullptr) << name;
    EXPECT_EQ(half->find(name)->dtype, DType::f64) << name;
  }
  EXPECT_EQ(train_run(short_run(save, wide)).tensors, whole.tensors);
}

TEST(AsyncSave, ItsCopyIsInTheDryRun) {
  TemporaryFolder save;
  const Overrides async =
      short_run(save, {"checkpoint.async_save=true", "dist.threads_per_rank=1"});
  const Overrides runs[] = {
      {},
      {"mixed_precision=fp64"},
      {"checkpoint.save_optim=false"},
      {"optimizer.optimizer=adafactor"},
      {"optimizer.optimizer=muon"},
      {"mixed_precision=bf16_mixed", "optimizer.use_precision_aware_optimizer=true",
       "optimizer.exp_avg_dtype=fp8"},
      {"dist.ranks=2"},
      {"dist.ranks=2", "ddp.use_distributed_optimizer=false"},
      {"dist.ranks=2", "ddp.use_distributed_optimizer=false",
       "checkpoint.fully_parallel_save=false"}};
  for (const Overrides& run : runs) {
    SCOPED_TRACE(run.empty() ? "" : run.back());
    const RunSetup setup = setup_of(async + run);
    run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
      const RankDevice rank = make_rank_device(setup.config.dist);
      Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
      int64_t bytes = 0;
      const CheckpointConfig& c = setup.config.checkpoint;
      for (const auto& entry :
           stage_run(trainer.engine(), trainer.state(),
                     {.optimizer = c.save_optim, .spread_copies = c.fully_parallel_save})
               .entries)
        bytes += entry.data.bytes();
      EXPECT_EQ(trainer.planned_memory().save_copy_bytes, bytes) << "rank " << world->rank();
    });
  }
  EXPECT_EQ(dry_run(setup_of(short_run(save))).save_copy_bytes, 0);
}

TEST(SaveRng, WithoutTheSeedARunGoesOnIfItIsTold) {
  TemporaryFolder save, other;
  const RunOutcome whole = train_run(short_run(other));
  const Overrides run = short_run(save, {"checkpoint.save_rng=false"});
  train_run(run + kFirstHalf);
  EXPECT_THAT(open_checkpoint(save.path())->state(), Not(HasSubstr("seed")));
  EXPECT_THAT(
      [&] { train_run(run); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("save_rng=false"), HasSubstr("load_rng=false"))));
  EXPECT_EQ(train_run(run + Overrides{"checkpoint.load_rng=false"}).tensors, whole.tensors);
}

/// A model with biases of q, k and v, and one without: they differ only in those tensors.
class StrictnessOf : public testing::Test {
 protected:
  /// Trains two steps with or without biases, and resumes without or with them.
  RunOutcome go_on(bool biases_before, const std::string& strictness) {
    TemporaryFolder save;
    const auto with = [&](bool biases, const Overrides& more) {
      return short_run(save, Overrides{fmt::format("model.add_qkv_bias={}", biases)} + more);
    };
    train_run(with(biases_before, kFirstHalf));
    return train_run(with(!biases_before, {"checkpoint.allow_changes=[model.add_qkv_bias]",
                                           "checkpoint.dist_ckpt_strictness=" + strictness}));
  }
  std::string warnings_of(bool biases_before, const std::string& strictness) {
    testing::internal::CaptureStderr();
    const RunOutcome outcome = go_on(biases_before, strictness);
    EXPECT_EQ(outcome.state.step, 4);
    EXPECT_EQ(outcome.tensors.contains(kBias), !biases_before);
    return testing::internal::GetCapturedStderr();
  }
  static constexpr const char* kBias = "model.layers.0.self_attn.q_proj.bias";
};

TEST_F(StrictnessOf, ATensorThatTheCheckpointLacks) {
  testing::internal::CaptureStderr();
  for (const char* strict : {"raise_all", "raise_unexpected"}) {
    EXPECT_THAT([&] { go_on(false, strict); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("do not fit the configuration"),
                                             HasSubstr("q_proj.bias is missing"))))
        << strict;
  }
  EXPECT_THAT([&] { go_on(false, "assume_ok_unexpected"); },
              ThrowsMessage<IoError>(
                  AllOf(Not(HasSubstr("do not fit")), HasSubstr("q_proj.bias is missing"))));
  testing::internal::GetCapturedStderr();
  for (const char* log : {"log_all", "log_unexpected"}) {
    EXPECT_THAT(warnings_of(false, log),
                AllOf(HasSubstr("k_proj.bias is missing"),
                      HasSubstr("optimizer.exp_avg_sq/model.layers.0.self_attn.v_proj.bias")))
        << log;
  }
}

TEST_F(StrictnessOf, ATensorThatTheRunHasNoUseFor) {
  testing::internal::CaptureStderr();
  EXPECT_THAT([&] { go_on(true, "raise_all"); },
              ThrowsMessage<IoError>(HasSubstr("q_proj.bias belongs to no parameter")));
  testing::internal::GetCapturedStderr();
  for (const char* silent : {"raise_unexpected", "assume_ok_unexpected", "log_unexpected"})
    EXPECT_THAT(warnings_of(true, silent), Not(HasSubstr("belongs to no parameter"))) << silent;
  EXPECT_THAT(warnings_of(true, "log_all"),
              AllOf(HasSubstr("q_proj.bias belongs to no parameter"),
                    HasSubstr("optimizer.exp_avg/model.layers.0.self_attn.q_proj.bias")));
}

TEST_F(StrictnessOf, WhatIsLackingBeginsAsInANewRunAndTheRestAsStored) {
  TemporaryFolder save;
  train_run(short_run(save, Overrides{"model.add_qkv_bias=false"} + kFirstHalf));
  const auto stored = open_checkpoint(save.path());
  testing::internal::CaptureStderr();
  with_trainers(
      short_run(save, {"model.add_qkv_bias=true", "checkpoint.load=" + save.path().string(),
                       "checkpoint.allow_changes=[model.add_qkv_bias]",
                       "checkpoint.dist_ckpt_strictness=log_unexpected"}),
      [&](Trainer& trainer, Communicator&) {
        int zeros = 0;
        for (const auto& entry : stage_run(trainer.engine(), trainer.state()).entries) {
          const std::string& name = entry.entry.tensor.name;
          const std::string bytes = bytes_of(entry.data);
          if (name.ends_with("_proj.bias")) {
            EXPECT_EQ(bytes, std::string(bytes.size(), '\0')) << name;
            ++zeros;
          } else {
            EXPECT_TRUE(bytes == bytes_of(stored->tensor(name))) << name;
          }
        }
        EXPECT_GT(zeros, 0);
      });
  testing::internal::GetCapturedStderr();
}

/// Two data-parallel ranks that hold copies of everything.
class Copies : public testing::Test {
 protected:
  Overrides run(const Overrides& more) {
    return short_run(
        save, layout(1, 1, 1, 2).overrides +
                  Overrides{"ddp.use_distributed_optimizer=false", "train.micro_batch_size=1"} +
                  more);
  }
  std::vector<int64_t> shard_bytes(const Overrides& more) {
    with_trainers(run(more), [](Trainer& trainer, Communicator&) { trainer.run(); });
    std::vector<int64_t> bytes;
    for (const StoredFile& shard : open_checkpoint(save.path())->index().shards)
      bytes.push_back(shard.bytes);
    return bytes;
  }
  TemporaryFolder save;
};

TEST_F(Copies, FullyParallelSaveSpreadsThem) {
  const auto spread = shard_bytes({});
  ASSERT_EQ(spread.size(), 2u);
  EXPECT_GT(spread[1], spread[0] / 2);
  EXPECT_LT(spread[1], 2 * spread[0]);
  std::filesystem::remove_all(save.path());
  const auto first = shard_bytes({"checkpoint.fully_parallel_save=false"});
  EXPECT_GT(first[0], spread[0] + spread[1] - 4096);
  EXPECT_EQ(first[1], 0);
}

TEST_F(Copies, FullyParallelLoadReadsEachShareOnceAndSendsIt) {
  with_trainers(run(kFirstHalf), [](Trainer& trainer, Communicator&) { trainer.run(); });
  for (const bool spread : {false, true}) {
    with_trainers(
        run({fmt::format("checkpoint.fully_parallel_load={}", spread)}),
        [&](Trainer& trainer, Communicator& world) {
          EXPECT_EQ(trainer.state().step, 2);
          // Once more, with a count of the opened shards.
          const CheckpointReader reader(save / "step_00000002", {world.rank(), world.size()});
          restore_run(trainer.engine(), reader, {.spread_copies = spread});
          EXPECT_EQ(reader.opened_shards(), spread ? 1 : 2);
          for (const auto& entry : stage_run(trainer.engine(), trainer.state()).entries) {
            EXPECT_TRUE(bytes_of(entry.data) == bytes_of(reader.tensor(entry.entry.tensor.name)))
                << entry.entry.tensor.name;
          }
        });
  }
}

/// The learning rates of a run that resumes after two steps with twice the rate and half the
/// length.
std::vector<double> rates(const Overrides& more) {
  TemporaryFolder save;
  train_run(short_run(save, kFirstHalf));
  train_run(short_run(save, Overrides{"optimizer.lr=2e-2", "scheduler.lr_decay_iters=3"} + more));
  return metric(save / "metrics.jsonl", "learning_rate");
}

TEST(ResumeSchedule, TheConfigurationOrTheCheckpointDecides) {
  TemporaryFolder save;
  train_run(short_run(save));
  const std::vector<double> before = metric(save / "metrics.jsonl", "learning_rate");
  ASSERT_EQ(before.size(), 4u);
  EXPECT_EQ(rates({"scheduler.use_checkpoint_opt_param_scheduler=true"}), before);
  const std::vector<double> now = rates({"scheduler.override_opt_param_scheduler=true"});
  EXPECT_GT(now[2], 1.1 * before[2]);
  EXPECT_EQ(rates({}), now) << "auto";
}

TEST(ResumeSchedule, ADifferenceIsAnErrorWhereNeitherDecides) {
  const Overrides neither{"scheduler.override_opt_param_scheduler=false"};
  EXPECT_THAT([&] { rates(neither); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("optimizer.lr: 0.01 there, 0.02 here"),
                        HasSubstr("rows of the learning rate's decay: 16 there, 12 here"),
                        HasSubstr("use_checkpoint_opt_param_scheduler=true"))));
  // Without a difference there is no error.
  TemporaryFolder save;
  train_run(short_run(save, kFirstHalf));
  EXPECT_EQ(train_run(short_run(save, neither)).state.step, 4);
}

TEST(ResumeSchedule, OneOfThemDecides) {
  EXPECT_THAT(
      [&] {
        setup_of(tiny_run() + Overrides{"scheduler.override_opt_param_scheduler=true",
                                        "scheduler.use_checkpoint_opt_param_scheduler=true"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("one of them")));
}

}  // namespace
}  // namespace viaduct
