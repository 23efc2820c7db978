// Experts of parallel blocks in layouts: the gradient of every tensor is that of one rank. What the
// experts read comes beside the stream, from attention's norm or from before it.

#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr double kLimit = 2e-5;

const Overrides kExperts{
    "model.family=qwen2_moe",       "model.num_query_groups=2",
    "model.num_moe_experts=4",      "model.moe_router_topk=2",
    "model.moe_ffn_hidden_size=16", "model.moe_shared_expert_intermediate_size=16",
    "model.moe_layer_freq=[0,1]",   "model.parallel_block=true"};

/// A saved model, one step after its start.
class SavedModel {
 public:
  explicit SavedModel(bool one_norm) {
    Overrides model = kExperts;
    if (one_norm) model.emplace_back("model.parallel_block_shared_norm=true");
    train_run(tiny_run() +
              Overrides{"model.vocab_size=512", "model.seq_length=128", "model.init_method_std=0.2",
                        "train.train_iters=1", "checkpoint.save=" + folder_.path().string()} +
              model);
    alone_ = probe(layout(1, 1, 1, 1));
  }
  std::map<std::string, Tensor> probe(const LayoutCase& layout) const {
    return probe_layout(folder_.path(), test_data("golden") / "llama" / "golden.safetensors", false,
                        layout.overrides + Overrides{"mixed_precision=fp32"});
  }
  const std::map<std::string, Tensor>& alone() const { return alone_; }

 private:
  TemporaryFolder folder_;
  std::map<std::string, Tensor> alone_;
};

const SavedModel& saved(bool one_norm) {
  static const SavedModel two(false), one(true);
  return one_norm ? one : two;
}

std::vector<LayoutCase> cases() {
  const auto experts = [](LayoutCase c) {
    c.overrides.emplace_back("model.expert_model_parallel_size=2");
    c.overrides.emplace_back("model.expert_tensor_parallel_size=1");
    return c;
  };
  const std::string rows = "train.micro_batch_size=1";
  return {experts(layout(2, 1, 1, 1)),
          experts(layout(1, 2, 1, 1)),
          experts(layout(1, 1, 2, 2, {rows})),
          experts(layout(1, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                         "sharded")),
          experts(layout(1, 1, 1, 2,
                         {"model.recompute_granularity=selective",
                          "model.recompute_modules=[core_attn,layernorm,moe]"},
                         "recompute_experts")),
          layout(1, 1, 2, 1,
                 {rows, "model.recompute_granularity=full", "model.recompute_method=uniform",
                  "model.recompute_num_layers=1"},
                 "recompute_layers"),
          layout(1, 1, 2, 1, {rows, "model.pipeline_schedule=zero_bubble"}, "zero_bubble")};
}

class ParallelExperts : public testing::TestWithParam<LayoutCase> {};

TEST_P(ParallelExperts, HaveTheGradientsOfOneRank) {
  for (const bool one_norm : {false, true}) {
    SCOPED_TRACE(one_norm ? "one norm" : "two norms");
    const SavedModel& model = saved(one_norm);
    const auto got = model.probe(GetParam());
    ASSERT_GT(model.alone().size(), 20u);
    for (const auto& [name, expected] : model.alone())
      EXPECT_LE(relative_error(got.at(name), expected), kLimit) << name;
    EXPECT_EQ(got.size(), model.alone().size());
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParallelExperts, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
