// Adapters on frozen weights in NF4, FP8 and BF16: every layout equals one rank.

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_reader.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"
#include "support/training.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::Overrides;
using test::TemporaryFolder;
using test::operator+;

/// The adapters that a run of three steps saves. Plain gradient descent: an update is proportional
/// to its gradient, so that rounding stays small.
std::map<std::string, Tensor> adapters_of(const std::string& format, const Overrides& layout) {
  const TemporaryFolder folder;
  const RunSetup setup = test::setup_of(
      test::tiny_run() +
      Overrides{"model.hidden_size=256", "model.ffn_hidden_size=256", "model.init_method_std=0.05",
                "peft.scheme=lora", "peft.dim=4", "peft.base_format=" + format,
                "optimizer.optimizer=sgd", "optimizer.lr=0.1", "train.train_iters=3",
                "train.micro_batch_size=1", "dist.threads_per_rank=1",
                "dist.distributed_timeout_minutes=1", "checkpoint.save=" + folder.path().string()} +
      layout);
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    trainer.run();
  });
  std::map<std::string, Tensor> tensors;
  const auto reader = open_checkpoint(folder.path());
  for (const TensorInfo& info : reader->tensors()) {
    if (info.name.find("lora_") == std::string::npos || info.name.find('/') != std::string::npos)
      continue;
    const Tensor mapped = reader->tensor(info.name);
    tensors[info.name] = host_tensor(mapped.dtype(), mapped.shape());
    std::copy_n(static_cast<const std::byte*>(mapped.raw()), mapped.bytes(),
                static_cast<std::byte*>(tensors[info.name].raw()));
  }
  return tensors;
}

class StoredBaseLayouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(StoredBaseLayouts, EqualOneRank) {
  for (const char* format : {"nf4", "fp8", "bf16"}) {
    SCOPED_TRACE(format);
    const auto one = adapters_of(format, {});
    const auto many = adapters_of(format, GetParam().overrides);
    EXPECT_EQ(one.size(), 2u * 7 * 2);
    ASSERT_EQ(many.size(), one.size());
    for (const auto& [name, tensor] : one) {
      ASSERT_TRUE(many.contains(name)) << name;
      EXPECT_LE(test::relative_error(many.at(name), tensor), 1e-4) << name;
    }
  }
}

TEST(StoredBaseOfExperts, EqualsOneRankInEveryLayout) {
  const Overrides experts{"model.family=qwen3_moe", "model.num_moe_experts=4",
                          "model.moe_router_topk=2", "model.moe_ffn_hidden_size=128",
                          "model.moe_aux_loss_coeff=0"};
  for (const char* format : {"nf4", "fp8"}) {
    SCOPED_TRACE(format);
    const bool halves = std::string(format) == "nf4";  // FP8 has 128 elements to a scale
    const auto one = adapters_of(format, experts);
    EXPECT_EQ(one.size(), 2u * 2 * (4 + 3 * 4));
    for (const LayoutCase& c :
         {layout(1, 1, 1, 2, {"model.expert_model_parallel_size=2"}, "ep2"),
          layout(2, 1, 1, 1,
                 {std::string("model.expert_tensor_parallel_size=") + (halves ? "2" : "1")}, "etp"),
          layout(2, 1, 1, 2,
                 {"model.expert_model_parallel_size=4", "model.expert_tensor_parallel_size=1"},
                 "ep4")}) {
      SCOPED_TRACE(c.name);
      const auto many = adapters_of(format, experts + c.overrides);
      ASSERT_EQ(many.size(), one.size());
      for (const auto& [name, tensor] : one)
        EXPECT_LE(test::relative_error(many.at(name), tensor), 1e-4) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StoredBaseLayouts,
    testing::Values(layout(2, 1, 1, 1), layout(1, 2, 1, 1), layout(1, 1, 2, 1), layout(1, 1, 1, 2),
                    layout(2, 1, 1, 1,
                           {"model.recompute_granularity=full", "model.recompute_method=uniform",
                            "model.recompute_num_layers=1", "model.sequence_parallel=false"},
                           "recompute")),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
