// Hybrid context parallel: documents that share different numbers of ranks have the loss and the
// gradients of one rank.

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "checkpoint/logical_gather.h"
#include "checkpoint/parameter_io.h"
#include "engine/document_batches.h"
#include "engine/engine.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "run/run_length.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/training.h"
#include "train/training_data.h"

namespace viaduct {
namespace {

using namespace test;

/// Rows of 64 tokens that hold documents of many lengths.
const Overrides kDocuments{"model.seq_length=64",
                           "train.global_batch_size=8",
                           "dataset.eod_id=3",
                           "dataset.reset_attention_mask=true",
                           "dataset.reset_position_ids=true",
                           "dist.threads_per_rank=1",
                           "dist.distributed_timeout_minutes=1"};
const Overrides kHybrid{"model.hybrid_context_parallel=true"};

struct Outcome {
  std::map<std::string, Tensor> values;  // loss, grad_norm, gradients by name
  std::vector<int> shared_by;            // ranks of each micro-batch of rank 0
};

Outcome first_step(const Overrides& overrides) {
  const RunSetup setup = setup_of(tiny_run() + kDocuments + overrides);
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  const Mesh& mesh = run.parallelism.mesh;
  Outcome outcome;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    world->record_on(rank.device.get());
    const TrainingData data(setup, rank.device->pool(), mesh.size(Axis::dp),
                            mesh.coordinate({world->rank()}, Axis::dp).value);
    Engine engine(*rank.device, rank.ops, setup.model, run, ParallelGroups(mesh, world));
    engine.initialize();
    engine.begin_step({});
    double scored = 0;
    int64_t tokens = 0;
    const int64_t rows = setup.config.train.global_batch_size;
    std::vector<int> shared_by;
    if (setup.config.context_parallel.hybrid_context_parallel) {
      DocumentBatches documents(setup, engine.groups());
      const auto row = [&](int64_t number) { return data.row(0, number); };
      documents.share(rows, data.place(), row, [&](const HostBatch& own) {
        scored += own.scored_weight();
        tokens += own.tokens();
      });
      engine.post_scored(scored, tokens);
      engine.run_micro_batches(documents.count(), [&](int64_t i) {
        HostBatch batch = documents.batch(i, row);
        EXPECT_LE(batch.tokens(),
                  batch.context_ranks * *setup.config.context_parallel.max_seqlen_per_dp_cp_rank);
        shared_by.push_back(batch.context_ranks);
        return batch;
      });
    } else {
      engine.run_micro_batches(data.micro_batches(rows), [&](int64_t i) {
        HostBatch batch = data.train(0, i);
        scored += batch.scored_weight();
        return batch;
      });
    }
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
    if (world->rank() == 0) outcome = {std::move(values), std::move(shared_by)};
  });
  return outcome;
}

class HybridContext : public testing::TestWithParam<LayoutCase> {};

TEST_P(HybridContext, HasTheGradientsOfOneRank) {
  static const Outcome alone = first_step({"dataset.mock=true"});
  const Outcome got = first_step(GetParam().overrides + kHybrid);
  ASSERT_EQ(got.values.size(), alone.values.size());
  for (const auto& [name, values] : alone.values)
    EXPECT_LE(relative_error(got.values.at(name), values), 2e-5) << name;
}

Overrides at_most(int64_t tokens) {
  return {"model.max_seqlen_per_dp_cp_rank=" + std::to_string(tokens)};
}

LayoutCase hybrid(int tp, int cp, int dp, int64_t tokens, const Overrides& more = {},
                  const std::string& name = "") {
  return layout(tp, cp, 1, dp, at_most(tokens) + more, name + "of" + std::to_string(tokens));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, HybridContext,
    testing::Values(hybrid(1, 1, 2, 32), hybrid(1, 2, 1, 40), hybrid(1, 1, 4, 16),
                    hybrid(1, 2, 2, 16), hybrid(1, 1, 4, 30), hybrid(2, 1, 2, 32),
                    hybrid(2, 2, 1, 33), hybrid(2, 1, 4, 17),
                    hybrid(1, 1, 4, 16, {"model.cp_comm_type=all_gather"}, "gather"),
                    hybrid(1, 1, 4, 64, {"ddp.overlap_grad_reduce=true"}, "alone")),
    [](const auto& info) { return info.param.name; });

TEST(HybridContexts, LongDocumentsShareMoreRanks) {
  const auto shared_by = [](int64_t tokens) {
    return first_step(layout(1, 1, 1, 4, at_most(tokens)).overrides + kHybrid).shared_by;
  };
  const std::vector<int> narrow = shared_by(16), wide = shared_by(64);
  EXPECT_EQ(narrow.front(), 4);
  EXPECT_EQ(narrow.back(), 1);
  EXPECT_EQ(wide, std::vector<int>(wide.size(), 1));
  EXPECT_LT(wide.size(), narrow.size());
}

}  // namespace
}  // namespace viaduct
