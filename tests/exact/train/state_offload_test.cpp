// Masters and optimizer states in the second memory: each optimizer and format trains bit by bit as
// without offloading, on one rank and on several, and resumes from checkpoints of either.

#include <gmock/gmock.h>

#include <fmt/format.h>

#include "run/launch.h"
#include "run/rank_device.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;

const Overrides kAware{"mixed_precision=bf16_mixed",
                       "optimizer.use_precision_aware_optimizer=true"};

struct Rule {
  std::string name;
  Overrides settings;
};
void PrintTo(const Rule& rule, std::ostream* out) {
  *out << rule.name;
}

const Rule kRules[] = {
    {"adam_fp32", {}},
    {"adam_bf16", {"mixed_precision=bf16_mixed"}},
    {"remainders_and_fp8",
     kAware + Overrides{"ddp.grad_reduce_in_fp32=false", "optimizer.main_grads_dtype=bf16",
                        "optimizer.exp_avg_dtype=fp8", "optimizer.exp_avg_sq_dtype=fp8"}},
    {"scaled_masters",
     kAware + Overrides{"optimizer.main_params_dtype=fp16", "optimizer.exp_avg_dtype=bf16",
                        "optimizer.exp_avg_sq_dtype=fp16"}},
    {"sgd", {"optimizer.optimizer=sgd", "mixed_precision=bf16_mixed"}},
    {"lion", {"optimizer.optimizer=lion", "optimizer.lr=1e-3"}},
    {"muon", {"optimizer.optimizer=muon", "mixed_precision=bf16_mixed"}},
    {"adafactor", {"optimizer.optimizer=adafactor", "mixed_precision=bf16_mixed"}}};

Overrides run_of(const Overrides& settings) {
  return tiny_run() + Overrides{"train.train_iters=6", "logger.log_throughput=false"} + settings;
}

/// Buckets of a few runs each, so that one is written while the next one is fetched.
Overrides offload(const std::string& fraction, bool overlap) {
  return {
      "optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=" + fraction,
      fmt::format("optimizer.overlap_cpu_optimizer_d2h_h2d={}", overlap), "ddp.bucket_size=5000"};
}

class StateOffload : public testing::TestWithParam<Rule> {};

TEST_P(StateOffload, ChangesNoBit) {
  const TemporaryFolder folder;
  const RunOutcome expected = train_run(run_of(GetParam().settings));
  const auto with = [&](const Overrides& more) {
    return train_run(run_of(GetParam().settings) + more);
  };
  EXPECT_EQ(with(offload("1", false)), expected);
  EXPECT_EQ(with(offload("1", true) + Overrides{"memory.offload_path=" + folder.path().string()}),
            expected);
  EXPECT_EQ(with(offload("0.4", true)), expected);
}

TEST_P(StateOffload, CheckpointsAreTheSame) {
  const TemporaryFolder folder;
  const Overrides save{"checkpoint.save=" + folder.path().string()};
  const RunOutcome whole = train_run(run_of(GetParam().settings));
  // Three steps with offloading: the checkpoint is saved synchronously and reads the second memory
  // while it is written. Then three steps without.
  train_run(run_of(GetParam().settings) + save + offload("0.6", true) +
            Overrides{"train.exit_interval=3", "checkpoint.async_save=false"});
  const RunOutcome went_on = train_run(run_of(GetParam().settings) + save);
  EXPECT_EQ(went_on, whole);
  // And the other way round, with another fraction.
  const TemporaryFolder other;
  const Overrides save_other{"checkpoint.save=" + other.path().string()};
  train_run(run_of(GetParam().settings) + save_other + Overrides{"train.exit_interval=3"});
  EXPECT_EQ(train_run(run_of(GetParam().settings) + save_other + offload("1", false)), whole);
}

INSTANTIATE_TEST_SUITE_P(Rules, StateOffload, testing::ValuesIn(kRules),
                         [](const auto& info) { return info.param.name; });

// The norm of the weights, the hashes of replicas and the search for a NaN read masters where they
// are.
TEST(StateOffloadReaders, FindMastersInTheSecondMemory) {
  const Overrides readers{"mixed_precision=bf16_mixed", "logger.log_params_norm=true",
                          "logger.log_interval=1"};
  const TemporaryFolder with, without;
  const auto norms = [&](const TemporaryFolder& folder, const Overrides& more) {
    train_run(run_of(readers) + Overrides{"checkpoint.save=" + folder.path().string()} + more);
    return metric(folder / "metrics.jsonl", "params_norm");
  };
  const auto expected = norms(without, {});
  ASSERT_EQ(expected.size(), 6u);
  EXPECT_EQ(norms(with, offload("1", true)), expected);
}

}  // namespace
}  // namespace viaduct
