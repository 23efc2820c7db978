// A V whose ends share the token table, through a tied head or multi-token prediction: the weights
// after some steps are those of one rank, and checkpoints move to and from other schedules. Uses
// SGD: its steps are proportional to gradients, so a wrong factor of the table's gradient would be
// detected.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/checkpoint_reader.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

using Values = std::map<std::string, std::vector<float>>;

const Overrides kRun = tiny_run() + Overrides{"model.num_layers=4",
                                              "model.num_query_groups=2",
                                              "model.init_method_std=0.2",
                                              "train.train_iters=3",
                                              "train.global_batch_size=12",
                                              "train.micro_batch_size=1",
                                              "optimizer.optimizer=sgd",
                                              "optimizer.lr=0.3",
                                              "scheduler.lr_decay_style=constant",
                                              "dist.threads_per_rank=1",
                                              "dist.distributed_timeout_minutes=1"};
const Overrides kTied{"model.share_embeddings_and_output_weights=true"};
/// The table of positions is in the unit of the token table, which both ends read.
const Overrides kPositions = kTied + Overrides{"model.family=gpt2", "model.num_query_groups=4"};
const Overrides kFurther{"model.mtp_num_layers=2"};

LayoutCase v(int tp, int dp, Overrides more, const std::string& name) {
  more = more + Overrides{"model.pipeline_schedule=dualpipe_v",
                          "model.virtual_pipeline_model_parallel_size=2"};
  return layout(tp, 1, 2, dp, more, name);
}

/// Trains and saves to `folder`, from the checkpoint in it if there is one.
Values train_into(const TemporaryFolder& folder, const Overrides& overrides) {
  const RunSetup setup =
      setup_of(kRun + overrides + Overrides{"checkpoint.save=" + folder.path().string()});
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    trainer.run();
  });
  Values values;
  const auto reader = open_checkpoint(folder.path());
  for (const TensorInfo& info : reader->tensors()) {
    if (info.name.starts_with("optimizer.")) continue;
    const std::string bytes = bytes_of(reader->tensor(info.name));
    values[info.name].resize(bytes.size() / sizeof(float));
    std::memcpy(values[info.name].data(), bytes.data(), bytes.size());
  }
  return values;
}

Values train(const Overrides& overrides) {
  return train_into(TemporaryFolder(), overrides);
}

const Values& alone(const Overrides& model) {
  static std::map<Overrides, Values> runs;
  const auto [at, first] = runs.try_emplace(model);
  if (first) at->second = train(model);
  return at->second;
}

void expect_near(const Values& got, const Values& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    double difference = 0, size = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(double{got.at(name)[i]} - double{values[i]}, 2);
      size += std::pow(double{values[i]}, 2);
    }
    EXPECT_LE(std::sqrt(difference), 2e-5 * std::sqrt(size)) << name;
  }
}

struct Case {
  std::string name;
  Overrides model;
};
void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

class VLayouts : public testing::TestWithParam<Case> {};

TEST_P(VLayouts, TrainLikeOneRank) {
  const Values& one = alone(GetParam().model);
  EXPECT_EQ(one.contains("lm_head.weight"), GetParam().name == "further");
  const std::string strategy = "ddp.data_parallel_sharding_strategy=",
                    buckets = "ddp.bucket_size=3000", reduce = "ddp.overlap_grad_reduce=true",
                    gather = "ddp.overlap_param_gather=true";
  for (const LayoutCase& c :
       {v(1, 1, {}, "plain"), v(2, 1, {"model.sequence_parallel=true"}, "tensor"),
        v(1, 2, {buckets, reduce, gather}, "overlap"),
        v(1, 2, {buckets, reduce, gather, "dist.align_grad_reduce=false"}, "not_aligned"),
        v(1, 2, {gather, "optimizer.overlap_param_gather_with_optimizer_step=true"}, "update"),
        v(1, 2, {strategy + "optim_grads"}, "gradients"),
        v(1, 2, {strategy + "optim_grads_params", reduce, gather}, "weights"),
        v(1, 1,
          {"model.recompute_granularity=selective",
           "model.recompute_modules=[core_attn,layernorm,mlp]"},
          "recompute"),
        v(1, 1,
          {"model.fine_grained_activation_offloading=true",
           "model.offload_modules=[attn_norm,core_attn,mlp]", "model.min_offloaded_tensor_size=0"},
          "offload")}) {
    SCOPED_TRACE(c.name);
    expect_near(train(GetParam().model + c.overrides), one);
  }
}

TEST_P(VLayouts, CheckpointsMoveBetweenSchedules) {
  const LayoutCase there = v(1, 1, {}, "v");
  const LayoutCase loop = layout(
      1, 1, 2, 1, {"train.micro_batch_size=1", "model.virtual_pipeline_model_parallel_size=2"});
  for (const auto& [first, second] :
       {std::pair{there.overrides, Overrides{}}, std::pair{loop.overrides, there.overrides},
        std::pair{there.overrides, loop.overrides}}) {
    const TemporaryFolder folder;
    train_into(folder, GetParam().model + first + Overrides{"train.exit_interval=2"});
    expect_near(train_into(folder, GetParam().model + second), alone(GetParam().model));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VLayouts,
                         testing::Values(Case{"tied", kTied}, Case{"positions", kPositions},
                                         Case{"further", kFurther}, Case{"both", kTied + kFurther}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
