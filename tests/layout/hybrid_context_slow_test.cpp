// Hybrid context parallel: documents that share different numbers of ranks have the loss and the
// gradients of one rank.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/document_batches.h"
#include "support/first_step.h"
#include "support/layout_run.h"
#include "support/training.h"

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

RunSetup setup_with(const Overrides& overrides) {
  return setup_of(tiny_run() + kDocuments + overrides);
}

struct SharedStep {
  StepTensors values;
  std::vector<int> shared_by;  // ranks of each micro-batch of rank 0
};

SharedStep shared_step(const Overrides& overrides) {
  const RunSetup setup = setup_with(overrides + kHybrid);
  SharedStep step;
  step.values = first_step(setup, [&](Engine& engine, const TrainingData& data) {
    DocumentBatches documents(setup, engine.groups());
    const auto row = [&](int64_t number) { return data.row(0, number); };
    double scored = 0;
    int64_t tokens = 0;
    documents.share(setup.config.train.global_batch_size, data.place(), row,
                    [&](const HostBatch& own) {
                      scored += own.scored_weight();
                      tokens += own.tokens();
                    });
    engine.post_scored(scored, tokens);
    std::vector<int> shared_by;
    engine.run_micro_batches(documents.count(), [&](int64_t i) {
      HostBatch batch = documents.batch(i, row);
      EXPECT_LE(batch.tokens(),
                batch.context_ranks * *setup.config.context_parallel.max_seqlen_per_dp_cp_rank);
      shared_by.push_back(batch.context_ranks);
      return batch;
    });
    if (engine.groups().world().rank() == 0) step.shared_by = std::move(shared_by);
    return scored;
  });
  return step;
}

class HybridContext : public testing::TestWithParam<LayoutCase> {};

TEST_P(HybridContext, HasTheGradientsOfOneRank) {
  static const StepTensors alone = first_step(setup_with({"dataset.mock=true"}));
  expect_same_step(shared_step(GetParam().overrides).values, alone);
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
    return shared_step(layout(1, 1, 1, 4, at_most(tokens)).overrides).shared_by;
  };
  const std::vector<int> narrow = shared_by(16), wide = shared_by(64);
  EXPECT_EQ(narrow.front(), 4);
  EXPECT_EQ(narrow.back(), 1);
  EXPECT_EQ(wide, std::vector<int>(wide.size(), 1));
  EXPECT_LT(wide.size(), narrow.size());
}

}  // namespace
}  // namespace viaduct
