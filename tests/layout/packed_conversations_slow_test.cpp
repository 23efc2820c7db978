// Packed conversations in any layout have the loss and the gradients of the same conversations, one
// a row, on one rank.

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/logical_gather.h"
#include "checkpoint/parameter_io.h"
#include "engine/engine.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/conversations.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"
#include "support/training.h"
#include "train/training_data.h"

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

/// Loss, gradient norm and gradients of a global batch that holds each conversation once.
std::map<std::string, Tensor> first_step(const std::string& prefix, bool packed,
                                         const Overrides& overrides) {
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
  const RunSetup setup = setup_of(settings + overrides);
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  const Mesh& mesh = run.parallelism.mesh;
  std::map<std::string, Tensor> outcome;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    world->record_on(rank.device.get());
    const TrainingData data(setup, rank.device->pool(), mesh.size(Axis::dp),
                            mesh.coordinate({world->rank()}, Axis::dp).value);
    Engine engine(*rank.device, rank.ops, setup.model, run, ParallelGroups(mesh, world));
    engine.initialize();
    engine.begin_step({});
    double scored = 0;
    engine.run_micro_batches(data.micro_batches(rows), [&](int64_t i) {
      HostBatch batch = data.train(0, i);
      scored += batch.scored_weight();
      return batch;
    });
    const StepResult result = engine.finish_step(scored, false);
    std::map<std::string, Tensor> values;
    for (const auto& [name, value] :
         {std::pair("loss", result.loss), std::pair("grad_norm", result.grad_norm)}) {
      values[name] = host_tensor(DType::f32, {});
      *values[name].data<float>() = static_cast<float>(value);
    }
    const Communicator& copies = engine.store().copies_of_runs();
    gather_logical(*world, engine.device(),
                   share_of_copies(stored_runs(engine.store(), [](const ShardRun& r,
                                                                  size_t) { return r.gradient; }),
                                   copies.rank(), copies.size()),
                   engine.gradient_factor(),
                   [&](const std::string& name, const Tensor& tensor) { values[name] = tensor; });
    if (world->rank() == 0) outcome = std::move(values);
  });
  return outcome;
}

class PackedConversations : public testing::TestWithParam<LayoutCase> {};

TEST_P(PackedConversations, HaveTheGradientsOfRowsOfOne) {
  static const Data data;
  static std::map<bool, std::map<std::string, Tensor>> references;  // with experts
  const Overrides experts{"model.family=qwen3_moe",     "model.num_moe_experts=4",
                          "model.moe_router_topk=2",    "model.moe_ffn_hidden_size=32",
                          "model.moe_aux_loss_coeff=0", "model.num_layers=2"};
  const bool routes = GetParam().name.find("ep") != std::string::npos;
  const Overrides model = routes ? experts : Overrides{"model.num_layers=4"};
  auto& alone = references[routes];
  if (alone.empty()) alone = first_step(data.prefix, false, model);
  const auto got = first_step(data.prefix, true, model + GetParam().overrides);
  ASSERT_EQ(got.size(), alone.size());
  for (const auto& [name, values] : alone)
    EXPECT_LE(relative_error(got.at(name), values), 2e-5) << name;
  const auto unpacked = first_step(data.prefix, false, model + GetParam().overrides);
  for (const auto& [name, values] : alone)
    EXPECT_LE(relative_error(unpacked.at(name), values), 2e-5) << name << ", one a row";
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
