// A dry run predicts a real step: the same ops, allocations, peak bytes and host reads, because the
// same code runs on another device. After its first steps a run requests no more memory from the
// system.

#include "engine/dry_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "report/memory_usage.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Each;
using testing::ElementsAre;

struct Case {
  const char* family;
  const char* recipe;
  const char* attention = "flash";  // unfused: without all fusions of attention
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.family << " " << c.recipe;
}

class DryRunTest : public testing::TestWithParam<Case> {
 protected:
  Overrides run =
      tiny_run(GetParam().family) +
      Overrides{std::string("mixed_precision=") + GetParam().recipe, "model.hidden_dropout=0.1",
                std::string("model.attention_backend=") + GetParam().attention} +
      (GetParam().attention == std::string("flash")
           ? Overrides{}
           : Overrides{"model.masked_softmax_fusion=false", "model.apply_rope_fusion=false"});
  const RunSetup setup = setup_of(run);
};

/// An engine and one global batch on `rank`, recorded. `ops_before`: of initialization.
struct Recorded {
  StepRecord record;
  size_t ops_before = 0, reads_before = 0;
  int64_t peak_bytes = 0;
};
void record_step(const RunSetup& setup, const RankDevice& rank, Recorded& result) {
  rank.device->set_record(&result.record);
  {
    const TrainingData data(setup, rank.device->pool());
    const ResolvedRun run = resolve_run(setup.config, setup.model);
    Engine engine(*rank.device, rank.ops, setup.model, run);
    engine.initialize();
    result.ops_before = result.record.ops().size();
    result.reads_before = result.record.host_reads().size();
    engine.begin_step({});
    double scored = 0;
    engine.run_micro_batches(data.micro_batches(setup.config.train.global_batch_size),
                             [&](int64_t i) {
                               HostBatch batch = data.train(0, i);
                               scored += batch.scored_weight();
                               return batch;
                             });
    EXPECT_EQ(result.record.host_reads().size(), result.reads_before)
        << "a host read before the end of the step";
    engine.finish_step(scored);
    result.peak_bytes = rank.device->memory().peak_bytes;
  }
  rank.device->set_record(nullptr);
}

std::vector<std::string> names(const StepRecord& record) {
  std::vector<std::string> names;
  for (const OpEntryRecord& op : record.ops())
    names.push_back(fmt::format("{} by {}", op.op, op.kernel));
  return names;
}

std::vector<std::string> allocations(const StepRecord& record) {
  std::vector<std::string> lines;
  for (const AllocationRecord& a : record.allocations())
    lines.push_back(fmt::format("{}: {} bytes, events {} to {}", a.tag, a.bytes, a.allocated_at,
                                a.released_at));
  return lines;
}

std::vector<std::string> reads(const StepRecord& record) {
  std::vector<std::string> reasons;
  for (const HostReadRecord& read : record.host_reads()) reasons.push_back(read.reason);
  return reasons;
}

TEST_P(DryRunTest, RecordsWhatARealStepDoes) {
  Recorded real, sim;
  record_step(setup, make_rank_device(setup.config.dist), real);
  record_step(setup, make_dry_run_device(setup.config), sim);
  EXPECT_GT(real.record.ops().size(), real.ops_before);
  EXPECT_EQ(names(sim.record), names(real.record));
  EXPECT_EQ(allocations(sim.record), allocations(real.record));
  EXPECT_EQ(reads(sim.record), reads(real.record));
  EXPECT_THAT(reads(real.record), ElementsAre("loss", "gradient norm", "skipped update"));
  EXPECT_EQ(sim.record.peak().bytes, real.record.peak().bytes);
  EXPECT_EQ(sim.record.peak().bytes_by_tag, real.record.peak().bytes_by_tag);
  EXPECT_EQ(sim.peak_bytes, real.peak_bytes);
  EXPECT_EQ(real.peak_bytes, real.record.peak().bytes);
  for (size_t i = 0; i < sim.record.ops().size(); ++i) {
    const OpEntryRecord &a = sim.record.ops()[i], &b = real.record.ops()[i];
    ASSERT_EQ(a.cost.total_flops(), b.cost.total_flops()) << a.op;
    ASSERT_EQ(a.cost.bytes_read, b.cost.bytes_read) << a.op;
    ASSERT_EQ(a.workspace_bytes, b.workspace_bytes) << a.op;
  }
}

TEST_P(DryRunTest, ItsNumbersAreThoseOfATrainingRun) {
  const DryRun predicted = dry_run(setup);
  const RankDevice rank = make_rank_device(setup.config.dist);
  std::vector<int64_t> system_allocations, reserved, in_use;
  StepRecord second;
  TrainerHooks hooks;
  hooks.stop_requested = [&] {
    const MemoryStatistics& memory = rank.device->memory();
    system_allocations.push_back(memory.system_allocations);
    reserved.push_back(memory.reserved_bytes);
    in_use.push_back(memory.bytes_in_use);
    // Called once before the first step, then after each.
    rank.device->set_record(system_allocations.size() == 2 ? &second : nullptr);
    return system_allocations.size() == 9;
  };
  Trainer trainer(setup, *rank.device, rank.ops, hooks);
  trainer.run();

  EXPECT_EQ(predicted.peak.bytes, rank.device->memory().peak_bytes);
  EXPECT_EQ(predicted.host_reads, 3);
  EXPECT_EQ(static_cast<int64_t>(second.host_reads().size()), predicted.host_reads);
  EXPECT_EQ(second.total_cost().total_flops(), predicted.cost.total_flops());
  int64_t launches = 0;
  for (const OpEntryRecord& op : second.ops()) launches += op.launches;
  EXPECT_EQ(launches, predicted.launches);

  ASSERT_EQ(system_allocations.size(), 9u);
  EXPECT_EQ(trainer.state().step, 8);
  EXPECT_GT(system_allocations[2], 0);
  EXPECT_THAT(std::vector(system_allocations.begin() + 2, system_allocations.end()),
              Each(system_allocations[2]));
  EXPECT_THAT(std::vector(reserved.begin() + 2, reserved.end()), Each(reserved[2]));
  EXPECT_THAT(std::vector(in_use.begin() + 2, in_use.end()), Each(in_use[2]));
}

INSTANTIATE_TEST_SUITE_P(Models, DryRunTest,
                         testing::Values(Case{"llama", "fp32"}, Case{"llama", "bf16_mixed"},
                                         Case{"gpt2", "fp32"}, Case{"gpt2", "bf16_mixed"},
                                         Case{"llama", "fp16_mixed"},
                                         Case{"llama", "bf16_mixed", "unfused"}),
                         [](const auto& info) {
                           return std::string(info.param.family) + "_" + info.param.recipe + "_" +
                                  info.param.attention;
                         });

// Rows of 16 million tokens: their content would be hundreds of megabytes.
TEST(DryRunOfLongRows, MakesNoContent) {
  for (const char* context_ranks : {"1", "2"}) {
    const RunSetup setup =
        setup_of(tiny_run() +
                 Overrides{"model.seq_length=16777216", "model.max_position_embeddings=16777216",
                           "train.micro_batch_size=1", "train.global_batch_size=2", "dist.ranks=2",
                           std::string("model.context_parallel_size=") + context_ranks});
    const int64_t before = process_memory().peak_resident_bytes;
    EXPECT_GT(dry_run(setup, {0}).peak.bytes, int64_t{1} << 30);
    EXPECT_LT(process_memory().peak_resident_bytes - before, int64_t{100} << 20) << context_ranks;
  }
}

}  // namespace
}  // namespace viaduct
