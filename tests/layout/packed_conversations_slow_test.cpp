// Packed conversations in any layout have the loss and the gradients of the same conversations, one
// a row, on one rank.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/conversations.h"
#include "support/first_step.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kRow = 64;
constexpr int64_t kPackedRows = 8;

/// Long ones, each in a row of its own, and short ones that fit beside them. Odd lengths.
std::vector<int64_t> lengths() {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < kPackedRows; ++i) {
    all.push_back(38 + i);
    all.push_back(16 - i % 3);
  }
  return all;
}

struct Data {
  TemporaryFolder folder;
  std::string prefix = write_conversations(folder / "chat", conversations_of(lengths()));
};

/// A global batch that holds each conversation once.
StepTensors step_of(const std::string& prefix, bool packed, const Overrides& overrides) {
  const int64_t rows = packed ? kPackedRows : static_cast<int64_t>(lengths().size());
  Overrides settings = tiny_run() + Overrides{"dataset.mock=false",
                                              "dataset.blend=[" + prefix + "]",
                                              "dataset.split=1,0,0",
                                              "model.seq_length=" + std::to_string(kRow),
                                              "train.global_batch_size=" + std::to_string(rows),
                                              "train.train_iters=1",
                                              "dist.threads_per_rank=1",
                                              "dist.distributed_timeout_minutes=1"};
  if (packed) settings.push_back("dataset.packed_sequence_size=" + std::to_string(kRow));
  return first_step(setup_of(settings + overrides));
}

class PackedConversations : public testing::TestWithParam<LayoutCase> {};

TEST_P(PackedConversations, HaveTheGradientsOfRowsOfOne) {
  static const Data data;
  static std::map<bool, StepTensors> references;  // with experts
  const Overrides experts{"model.family=qwen3_moe",     "model.num_moe_experts=4",
                          "model.moe_router_topk=2",    "model.moe_ffn_hidden_size=32",
                          "model.moe_aux_loss_coeff=0", "model.num_layers=2"};
  const bool routes = GetParam().name.find("ep") != std::string::npos;
  const Overrides model = routes ? experts : Overrides{"model.num_layers=4"};
  auto& alone = references[routes];
  if (alone.empty()) alone = step_of(data.prefix, false, model);
  const Overrides settings = model + GetParam().overrides;
  expect_same_step(step_of(data.prefix, true, settings), alone);
  expect_same_step(step_of(data.prefix, false, settings), alone, ", one a row");
}

const Overrides kSharded{"ddp.data_parallel_sharding_strategy=optim_grads_params"};

LayoutCase named(const char* name, const Overrides& overrides) {
  return {name, overrides};
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PackedConversations,
    testing::Values(layout(1, 1, 1, 1, {}, "one"), layout(2, 1, 1, 1), layout(1, 2, 1, 1),
                    layout(1, 1, 2, 1), layout(1, 1, 1, 2), layout(1, 1, 1, 2, kSharded, "sharded"),
                    layout(2, 2, 1, 1), layout(1, 2, 2, 1),
                    layout(2, 1, 2, 1, {"train.micro_batch_size=1"}, "rows_of_one"),
                    layout(1, 2, 1, 2, kSharded, "sharded"),
                    layout(1, 2, 1, 1, {"dataset.pad_seq_to_mult=4"}, "padded"),
                    layout(2, 1, 1, 1, {"dataset.pad_cu_seqlens=true"}, "fixed_documents"),
                    layout(1, 2, 1, 1, {"model.cp_comm_type=all_gather"}, "gather"),
                    layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a"),
                    layout(1, 1, 1, 1,
                           {"model.recompute_granularity=full", "model.recompute_method=uniform",
                            "model.recompute_num_layers=1"},
                           "recompute"),
                    layout(1, 1, 1, 1,
                           {"model.fine_grained_activation_offloading=true",
                            "model.offload_modules=[core_attn,mlp]",
                            "model.min_offloaded_tensor_size=0"},
                           "offload"),
                    named("ep2", {"dist.ranks=2", "model.expert_model_parallel_size=2"}),
                    named("ep2_tp2", {"dist.ranks=4", "model.expert_model_parallel_size=2",
                                      "model.tensor_model_parallel_size=2",
                                      "model.expert_tensor_parallel_size=1"}),
                    named("ep2_cp2", {"dist.ranks=2", "model.expert_model_parallel_size=2",
                                      "model.context_parallel_size=2"})),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
