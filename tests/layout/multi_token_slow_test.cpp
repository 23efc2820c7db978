// Multi-token prediction in layouts: losses of all depths and the gradient of every tensor are
// those of one rank.

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

const Overrides kLlama{"model.mtp_num_layers=2", "model.num_query_groups=2"};
const Overrides kTied = kLlama + Overrides{"model.share_embeddings_and_output_weights=true",
                                           "model.add_head_bias=true"};
const Overrides kExperts{
    "model.family=deepseek_v3",       "model.mtp_num_layers=1",
    "model.num_moe_experts=4",        "model.moe_router_topk=2",
    "model.moe_router_num_groups=2",  "model.moe_router_group_topk=1",
    "model.moe_ffn_hidden_size=16",   "model.moe_shared_expert_intermediate_size=16",
    "model.moe_layer_freq=[0,1,1,1]", "model.q_lora_rank=24",
    "model.kv_lora_rank=16",          "model.qk_head_dim=12",
    "model.qk_pos_emb_head_dim=8",    "model.v_head_dim=10"};

/// A saved model of four layers with the vocabulary of the golden batches, one step after its
/// start.
class SavedModel {
 public:
  explicit SavedModel(const Overrides& model) {
    train_run(tiny_run() +
              Overrides{"model.num_layers=4", "model.vocab_size=512", "model.seq_length=128",
                        "model.init_method_std=0.2", "train.train_iters=1",
                        "checkpoint.save=" + folder_.path().string()} +
              model);
    alone_ = probe(layout(1, 1, 1, 1));
  }
  std::map<std::string, Tensor> probe(const LayoutCase& layout) const {
    return probe_layout(
        folder_.path(), test_data("golden") / "llama" / "golden.safetensors", false,
        layout.overrides + Overrides{"mixed_precision=fp32", "model.mtp_loss_scaling_factor=0.5"});
  }
  /// Some steps, by the optimizer of the reference.
  std::map<std::string, Tensor> train(Overrides overrides) const {
    for (const std::string& one : reference_optimizer()) overrides.push_back(one);
    overrides.emplace_back("mixed_precision=fp32");
    return probe_layout(folder_.path(), test_data("golden") / "llama" / "train.safetensors", true,
                        overrides);
  }
  const std::map<std::string, Tensor>& alone() const { return alone_; }

 private:
  TemporaryFolder folder_;
  std::map<std::string, Tensor> alone_;
};

const SavedModel& saved(const std::string& name) {
  static std::map<std::string, std::unique_ptr<SavedModel>> models;
  std::unique_ptr<SavedModel>& model = models[name];
  if (!model)
    model = std::make_unique<SavedModel>(name == "llama"  ? kLlama
                                         : name == "tied" ? kTied
                                                          : kExperts);
  return *model;
}

struct Case {
  std::string model;
  LayoutCase layout;
};
void PrintTo(const Case& c, std::ostream* os) {
  *os << c.model << " " << c.layout.name;
}

std::vector<Case> cases() {
  const std::string rows = "train.micro_batch_size=1";
  const auto experts = [](LayoutCase c) {
    c.overrides.emplace_back("model.expert_model_parallel_size=2");
    c.overrides.emplace_back("model.expert_tensor_parallel_size=1");
    return c;
  };
  std::vector<Case> list;
  for (const char* model : {"llama", "tied"}) {
    list.push_back({model, layout(2, 1, 1, 1, {"model.sequence_parallel=false"})});
    list.push_back({model, layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "sequence")});
    list.push_back({model, layout(1, 1, 2, 1, {rows})});
    list.push_back({model, layout(2, 1, 2, 1, {"model.sequence_parallel=true"}, "sequence")});
  }
  const std::string sharded = "ddp.data_parallel_sharding_strategy=optim_grads_params";
  list.push_back({"llama", layout(1, 2, 1, 1)});
  list.push_back({"llama", layout(1, 1, 1, 2)});
  list.push_back({"llama", layout(1, 1, 1, 2, {sharded}, "sharded")});
  list.push_back({"llama", layout(1, 1, 2, 2, {sharded}, "sharded")});
  list.push_back({"llama", layout(2, 2, 1, 1, {"model.sequence_parallel=true"}, "sequence")});
  list.push_back(
      {"llama", layout(1, 1, 2, 1, {rows, "model.pipeline_schedule=zero_bubble"}, "zero_bubble")});
  list.push_back(
      {"llama",
       layout(1, 1, 2, 1, {rows, "model.virtual_pipeline_model_parallel_size=2"}, "chunks")});
  list.push_back(
      {"llama",
       layout(1, 1, 2, 1, {rows, "model.pipeline_model_parallel_layout=Et*3|tmmL"}, "layout")});
  list.push_back({"experts", experts(layout(1, 1, 1, 2))});
  list.push_back({"experts", experts(layout(2, 1, 1, 1))});
  list.push_back({"experts", experts(layout(2, 1, 2, 1, {rows}))});
  list.push_back({"experts", experts(layout(1, 2, 1, 1))});
  return list;
}

class MultiTokenLayouts : public testing::TestWithParam<Case> {};

TEST_P(MultiTokenLayouts, HaveTheGradientsOfOneRank) {
  const SavedModel& model = saved(GetParam().model);
  const auto got = model.probe(GetParam().layout);
  ASSERT_GT(model.alone().size(), 40u);
  ASSERT_TRUE(model.alone().contains("grad.model.layers.4.eh_proj.weight"));
  for (const auto& [name, expected] : model.alone())
    EXPECT_LE(relative_error(got.at(name), expected), kLimit) << name;
  EXPECT_EQ(got.size(), model.alone().size());
}

INSTANTIATE_TEST_SUITE_P(Layouts, MultiTokenLayouts, testing::ValuesIn(cases()),
                         [](const auto& info) {
                           return info.param.model + "_" + info.param.layout.name;
                         });

/// Three steps of adapters, those of its own layer included.
std::map<std::string, Tensor> adapted(const SavedModel& model, const LayoutCase& layout) {
  return model.train(layout.overrides + Overrides{"peft.scheme=lora", "peft.dim=4",
                                                  "peft.dropout=0.2",
                                                  "peft.target_modules=[all-linear,mtp]"});
}

TEST(MultiTokenAdapters, TrainAsOnOneRank) {
  const std::string rows = "train.micro_batch_size=1";
  const SavedModel& model = saved("llama");
  const auto alone = adapted(model, layout(1, 1, 1, 1));
  ASSERT_TRUE(alone.contains("final.base_model.model.model.layers.4.eh_proj.lora_B.weight"));
  for (const LayoutCase& c :
       {layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "sequence"), layout(1, 2, 1, 1),
        layout(1, 1, 2, 1, {rows}),
        layout(1, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
               "sharded")}) {
    SCOPED_TRACE(c.name);
    const auto got = adapted(model, c);
    EXPECT_EQ(got.size(), alone.size());
    for (const char* name : {"loss", "grad_norm"})
      EXPECT_LE(relative_error(got.at(name), alone.at(name)), 1e-4) << name;
  }
}

// A mean of micro-batch means does not depend on how a micro-batch is cut either.
TEST(MultiTokenMeans, AreThoseOfOneRank) {
  const SavedModel& model = saved("llama");
  const Overrides means{"model.calculate_per_token_loss=false", "train.micro_batch_size=1"};
  const auto alone = model.probe(layout(1, 1, 1, 1, means));
  const auto got = model.probe(layout(2, 1, 2, 1, means));
  for (const auto& [name, expected] : alone)
    EXPECT_LE(relative_error(got.at(name), expected), kLimit) << name;
}

}  // namespace
}  // namespace viaduct
