// T5 whose encoder has more or fewer tensor ranks than its decoder, on stages of its own: the
// reference's logits, loss and gradients, ten steps of its trace, adapters of both halves, and runs
// that go on in another layout. The token table is cut in another way on each side.

#include <gtest/gtest.h>

#include <mutex>

#include "checkpoint/safetensors_reader.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/moving_run.h"
#include "support/paths.h"
#include "support/rank_trainers.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::ModelLayout;
using test::operator+;

/// Tensor ranks and stages of the two halves, and what they share.
struct Halves {
  int etp = 1, epp = 1, tp = 1, pp = 1, cp = 1, dp = 1;

  int ranks() const { return cp * dp * (etp * epp + tp * pp); }
};

const std::string kOwn = "model.encoder_tensor_model_parallel_size=",
                  kCut = "model.sequence_parallel=true",
                  kFull = "ddp.data_parallel_sharding_strategy=optim_grads_params",
                  kChunks = "model.virtual_pipeline_model_parallel_size=2";
const std::vector<std::string> kAgain{"model.recompute_granularity=full",
                                      "model.recompute_method=uniform",
                                      "model.recompute_num_layers=1"};

LayoutCase halves(const Halves& h, std::vector<std::string> more = {},
                  const std::string& suffix = "") {
  more.insert(more.begin(), {"dist.ranks=" + std::to_string(h.ranks()), "train.micro_batch_size=1",
                             "model.encoder_pipeline_model_parallel_size=" + std::to_string(h.epp),
                             kOwn + std::to_string(h.etp)});
  if (h.cp > 1) more.push_back("model.cp_comm_type=all_gather");
  const std::string own = "encoder" + std::to_string(h.epp) + "_etp" + std::to_string(h.etp);
  return layout(h.tp, h.cp, h.pp, h.dp, more, suffix.empty() ? own : own + "_" + suffix);
}

std::vector<LayoutCase> layouts() {
  const std::string whole = "model.sequence_parallel=false";
  std::vector<LayoutCase> all{halves({.tp = 2}, {whole}),
                              halves({.etp = 2}),
                              halves({.etp = 4, .tp = 2}, {kCut}, "sequence"),
                              halves({.etp = 4, .epp = 2, .tp = 2, .pp = 2}, {whole}),
                              halves({.tp = 2, .pp = 2, .dp = 2}, {kFull}, "full"),
                              halves({.etp = 2, .cp = 2})};
  for (LayoutCase one :
       {halves({.tp = 2}, {kCut}, "sequence"), halves({.etp = 2, .tp = 4}, {kCut}, "sequence"),
        halves({.etp = 2, .epp = 2, .dp = 2}),
        halves({.etp = 2, .pp = 2, .dp = 2}, {"ddp.use_distributed_optimizer=false"}, "whole"),
        halves({.etp = 2, .pp = 2, .dp = 2}, {"ddp.num_distributed_optimizer_instances=2"},
               "instances"),
        halves({.tp = 2, .cp = 2}, {kCut}, "sequence"),
        halves({.tp = 4}, kAgain + std::vector<std::string>{whole}, "recompute"),
        halves({.etp = 2, .epp = 2, .pp = 2}, {"model.pipeline_schedule=zero_bubble"},
               "zero_bubble"),
        halves({.tp = 2, .pp = 2}, {kChunks, whole}, "chunks")}) {
    one.only = {"t5"};  // of four blocks, and tied
    all.push_back(std::move(one));
  }
  return all;
}

class EncoderTensorLayout : public testing::TestWithParam<ModelLayout> {};

TEST_P(EncoderTensorLayout, GivesTheReferencesGradients) {
  EXPECT_GT(test::expect_reference(GetParam(), 2e-5), 20);
}

TEST_P(EncoderTensorLayout, TenStepsFollowTheTrace) {
  test::expect_trace(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cases, EncoderTensorLayout,
                         testing::ValuesIn(test::models_in_layouts({"t5", "t5_v1_1"}, layouts())),
                         [](const auto& info) { return info.param.name(); });

/// PEFT's gradients of adapters in both halves.
TEST(EncoderTensor, AdaptersOfBothHalves) {
  for (const char* name : {"lora_t5", "dora_t5"}) {
    const auto folder = test::test_data("golden") / name;
    const SafetensorsFile once(folder / "golden.safetensors");
    for (const LayoutCase& one : {halves({.tp = 2}, {"model.sequence_parallel=false"}),
                                  halves({.etp = 2, .pp = 2}), halves({.tp = 2}, {kCut})}) {
      SCOPED_TRACE(std::string(name) + " " + one.name);
      const auto got = test::probe_layout(
          test::test_data("golden/t5_v1_1/model"), folder / "golden.safetensors", false,
          one.overrides +
              std::vector<std::string>{"peft.adapter=" + (folder / "adapter").string()});
      EXPECT_GT(test::expect_gradients_of(got, once, 2e-5), 20);
    }
  }
}

/// Weights, masters and moments have the same bits, and the next step is that of one rank.
TEST(EncoderTensor, ARunGoesOnInAnotherLayout) {
  const LayoutCase wide = halves({.etp = 2, .pp = 2}), narrow = halves({.tp = 2, .dp = 2}, {kFull});
  const test::Overrides rows{"model.encoder_seq_length=24"};
  test::expect_goes_on(test::three_steps("t5") + rows,
                       {{wide, narrow}, {narrow, layout(1, 1, 2, 1)}}, 100);
  test::expect_goes_on(test::three_steps("t5_v1_1") + rows, {{layout(2, 1, 1, 1), wide}}, 50);
}

/// After steps whose states and shards are cut in another way on the other side all stages have the
/// same bits.
TEST(EncoderTensor, CopiesOfTheTokenTableStayTheSame) {
  const test::Overrides muon{"optimizer.optimizer=muon"},
      scales{"optimizer.use_precision_aware_optimizer=true", "optimizer.exp_avg_dtype=fp8",
             "optimizer.exp_avg_sq_dtype=fp8"};
  for (const auto& [one, more] : std::vector<std::pair<LayoutCase, test::Overrides>>{
           {halves({.etp = 2, .dp = 3}), scales},
           {halves({.tp = 2, .pp = 2, .dp = 2}), muon + test::Overrides{kFull}}}) {
    SCOPED_TRACE(one.name + " " + more.back());
    std::map<int, std::map<int64_t, std::string>> parts;  // by stage and first element
    std::mutex mutex;
    test::with_trainers(
        test::tiny_run("t5") + one.overrides +
            test::Overrides{"model.vocab_size=250", "model.make_vocab_size_divisible_by=2",
                            "train.global_batch_size=6", "train.train_iters=3"} +
            more,
        [&](Trainer& trainer, Communicator&) {
          trainer.run();
          const ParallelGroups& groups = trainer.engine().groups();
          for (const ShardRun& run : trainer.engine().store().shard_runs()) {
            const Parameter& parameter = *run.parameter;
            if (parameter.path != "embedding.tokens") continue;
            const int64_t first = groups.tp().rank() * parameter.shape.elements() + run.range.begin;
            const std::lock_guard lock(mutex);
            parts[groups.stage()][first] = test::bytes_of(run.master);
          }
        });
    std::vector<std::string> tables;
    for (const auto& [stage, runs] : parts) {
      tables.emplace_back();
      for (const auto& [first, bytes] : runs) tables.back() += bytes;
    }
    ASSERT_GE(tables.size(), 2u);
    EXPECT_GE(tables[0].size(), 250 * 32 * sizeof(float));
    for (const std::string& table : tables) EXPECT_TRUE(table == tables[0]);
  }
}

}  // namespace
}  // namespace viaduct
