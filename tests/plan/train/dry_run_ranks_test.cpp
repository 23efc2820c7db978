// The dry run of one of many ranks predicts what that rank does among the others: the same
// collectives with the same bytes, the same allocations and peak. And its report adds up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "engine/dry_run.h"
#include "engine/engine.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/paths.h"
#include "support/training.h"
#include "train/training_data.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

struct Sizes {
  int tp = 1, cp = 1, pp = 1, dp = 1, chunks = 1;
  bool fp32_stream = false;                       // under BF16; else all is FP32
  std::string recompute = "";                     // layers, units or none
  std::optional<ShardingStrategy> strategy = {};  // none: auto
  int64_t further = 0;                            // layers of multi-token prediction
  bool adapters = false;                          // on frozen weights
  std::string name() const {
    return "tp" + std::to_string(tp) + "_cp" + std::to_string(cp) + "_pp" + std::to_string(pp) +
           "_dp" + std::to_string(dp) + (chunks > 1 ? "_vpp" + std::to_string(chunks) : "") +
           (fp32_stream ? "_fp32_stream" : "") + (recompute.empty() ? "" : "_" + recompute) +
           (strategy ? "_" + std::string(choice_name(*strategy)) : "") +
           (further > 0 ? "_mtp" + std::to_string(further) : "") + (adapters ? "_adapters" : "");
  }
};

void PrintTo(const Sizes& sizes, std::ostream* out) {
  *out << sizes.name();
}

/// A tiny run in this layout; every `auto` is resolved for these sizes.
RunSetup setup_of(const Sizes& sizes) {
  LoadedRunConfig loaded =
      load_run_config({}, tiny_run() + Overrides{"model.num_layers=4", "train.global_batch_size=8",
                                                 "dist.threads_per_rank=1"});
  RunConfig& config = loaded.config;
  config.dist.ranks = sizes.tp * sizes.cp * sizes.pp * sizes.dp;
  config.parallel.tensor_model_parallel_size = sizes.tp;
  config.parallel.context_parallel_size = sizes.cp;
  config.parallel.pipeline_model_parallel_size = sizes.pp;
  if (sizes.fp32_stream) {
    config.mixed_precision.recipe = RecipeName::bf16_mixed;
    config.mixed_precision.fp32_residual_connection = true;
  }
  if (sizes.recompute == "layers") {
    config.recompute = {RecomputeGranularity::full, RecomputeMethod::uniform, 1, {}};
  } else if (sizes.recompute == "units") {
    config.recompute = {
        RecomputeGranularity::selective,
        std::nullopt,
        std::nullopt,
        {RecomputeModule::core_attn, RecomputeModule::layernorm, RecomputeModule::mlp}};
  }
  if (sizes.strategy) config.ddp.data_parallel_sharding_strategy = *sizes.strategy;
  if (sizes.adapters) config.peft.scheme = AdapterScheme::lora, config.peft.dim = 4;
  if (sizes.further > 0) config.model.mtp_num_layers = std::optional(sizes.further);
  if (sizes.chunks > 1) config.pipeline.virtual_pipeline_model_parallel_size = sizes.chunks;
  return prepare_run(std::move(loaded));
}

/// One line a collective: operation, group, bytes.
std::vector<std::string> collectives(const StepRecord& record) {
  std::vector<std::string> lines;
  for (const CollectiveRecord& c : record.collectives()) {
    lines.push_back(fmt::format("{} in {} of {}, number {}: {} bytes, {} sent",
                                choice_name(c.operation), c.group, c.members->text(), c.sequence,
                                c.bytes, c.wire_bytes));
  }
  return lines;
}

void expect_what_dry_runs_say(const RunSetup& setup) {
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  std::vector<StepRecord> records(static_cast<size_t>(setup.config.dist.ranks));
  std::vector<int64_t> peaks(records.size());
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const GlobalRank me{world->rank()};
    const RankDevice rank = make_rank_device(setup.config.dist);
    rank.device->set_record(&records[static_cast<size_t>(me.value)]);
    world->record_on(rank.device.get());
    {
      Engine engine(*rank.device, rank.ops, setup.model, run,
                    ParallelGroups(run.parallelism.mesh, world));
      engine.initialize();
      for (int step = 0; step < 2; ++step) {
        engine.begin_step({});
        run_blank_batches(setup, engine);
        engine.finish_step(1);
      }
      peaks[static_cast<size_t>(me.value)] = rank.device->memory().peak_bytes;
    }
    rank.device->set_record(nullptr);
  });
  for (size_t i = 0; i < records.size(); ++i) {
    SCOPED_TRACE("rank " + std::to_string(i));
    StepRecord record;
    const DryRun predicted = dry_run(setup, {static_cast<int>(i)}, &record);
    EXPECT_EQ(predicted.peak.bytes, peaks[i]);
    EXPECT_EQ(predicted.peak.bytes_by_tag, records[i].peak().bytes_by_tag);
    EXPECT_EQ(collectives(record), collectives(records[i]));
    EXPECT_EQ(record.ops().size(), records[i].ops().size());
  }
}

class DryRunRanks : public testing::TestWithParam<Sizes> {};

TEST_P(DryRunRanks, EachRankDoesWhatItsDryRunSays) {
  expect_what_dry_runs_say(setup_of(GetParam()));
}

TEST(DryRunImages, StagesOfAVisionTowerDoWhatTheirDryRunsSay) {
  const auto own_stages = [](const Overrides& more) {
    return test::setup_of(
        Overrides{"model.hf_config=" + (test_data("golden") / "llava_clip" / "model").string(),
                  "model.seq_length=16", "mixed_precision=fp32", "dataset.mock=true",
                  "train.train_iters=2", "train.global_batch_size=4", "train.micro_batch_size=1",
                  "validation.eval_iters=0", "dist.threads_per_rank=1"} +
        more);
  };
  const std::string tower = "model.encoder_pipeline_model_parallel_size=";
  expect_what_dry_runs_say(
      own_stages({"dist.ranks=4", "model.tensor_model_parallel_size=2", tower + "1"}));
  expect_what_dry_runs_say(own_stages({"dist.ranks=4", "model.pipeline_model_parallel_size=2",
                                       tower + "2", "model.freeze_vision_model=true"}));
  const Overrides chunks{"model.pipeline_model_parallel_size=2",
                         "model.pipeline_model_parallel_layout=E|t|t|L"};
  expect_what_dry_runs_say(own_stages(chunks + Overrides{"dist.ranks=3", tower + "1"}));
  // Two tensor ranks beside one.
  const std::string own = "model.encoder_tensor_model_parallel_size=";
  expect_what_dry_runs_say(
      own_stages({"dist.ranks=3", "model.tensor_model_parallel_size=2", tower + "1", own + "1"}));
  expect_what_dry_runs_say(own_stages({"dist.ranks=3", tower + "1", own + "2"}));
}

TEST(DryRunEncoder, StagesInFrontOfChunksDoWhatTheirDryRunsSay) {
  const Overrides run{"dist.ranks=4",
                      "model.encoder_pipeline_model_parallel_size=2",
                      "model.pipeline_model_parallel_size=2",
                      "model.virtual_pipeline_model_parallel_size=2",
                      "model.num_layers=4",
                      "model.encoder_seq_length=48",
                      "train.global_batch_size=8",
                      "train.micro_batch_size=1",
                      "dist.threads_per_rank=1"};
  expect_what_dry_runs_say(test::setup_of(tiny_run("t5") + run));
  expect_what_dry_runs_say(
      test::setup_of(tiny_run("t5") + run + Overrides{"model.pipeline_schedule=dualpipe_v"}));
}

TEST(DryRunEncoder, TensorRanksOfItsOwnDoWhatTheirDryRunsSay) {
  for (const Overrides& layout :
       {Overrides{"dist.ranks=3", "model.tensor_model_parallel_size=2",
                  "model.encoder_tensor_model_parallel_size=1", "model.sequence_parallel=false"},
        Overrides{"dist.ranks=6", "model.tensor_model_parallel_size=2",
                  "model.encoder_tensor_model_parallel_size=1", "model.sequence_parallel=true",
                  "ddp.data_parallel_sharding_strategy=optim_grads_params"},
        Overrides{"dist.ranks=6", "model.encoder_tensor_model_parallel_size=2"},
        Overrides{"dist.ranks=4", "model.encoder_tensor_model_parallel_size=2",
                  "model.pipeline_model_parallel_size=2", "peft.scheme=lora", "peft.dim=4"}}) {
    expect_what_dry_runs_say(
        test::setup_of(tiny_run("t5") +
                       Overrides{"model.encoder_pipeline_model_parallel_size=1",
                                 "model.encoder_seq_length=48", "train.global_batch_size=8",
                                 "train.micro_batch_size=1", "dist.threads_per_rank=1"} +
                       layout));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, DryRunRanks,
    testing::Values(
        Sizes{.tp = 2}, Sizes{.pp = 2}, Sizes{.dp = 2}, Sizes{.cp = 2}, Sizes{.pp = 2, .chunks = 2},
        Sizes{.tp = 2, .pp = 2}, Sizes{.fp32_stream = true}, Sizes{.tp = 2, .fp32_stream = true},
        Sizes{.dp = 2, .fp32_stream = true}, Sizes{.cp = 2, .fp32_stream = true},
        Sizes{.pp = 2, .chunks = 2, .fp32_stream = true}, Sizes{.recompute = "layers"},
        Sizes{.tp = 2, .recompute = "units"}, Sizes{.tp = 2, .pp = 2, .recompute = "layers"},
        Sizes{.cp = 2, .dp = 2, .recompute = "units"},
        Sizes{.pp = 2, .chunks = 2, .recompute = "units"},
        Sizes{.dp = 2, .strategy = ShardingStrategy::optim_grads},
        Sizes{.dp = 4, .fp32_stream = true, .strategy = ShardingStrategy::optim_grads_params},
        Sizes{.tp = 2, .dp = 2, .strategy = ShardingStrategy::optim_grads_params},
        Sizes{.cp = 2, .recompute = "layers", .strategy = ShardingStrategy::optim_grads_params},
        Sizes{.pp = 2, .dp = 2, .chunks = 2, .strategy = ShardingStrategy::optim_grads_params},
        Sizes{.dp = 2, .strategy = ShardingStrategy::optim_grads, .adapters = true},
        Sizes{.tp = 2, .dp = 2, .strategy = ShardingStrategy::optim_grads_params, .adapters = true},
        Sizes{.further = 2}, Sizes{.fp32_stream = true, .further = 1},
        Sizes{.tp = 2, .pp = 2, .recompute = "layers", .further = 2},
        Sizes{.cp = 2, .dp = 2, .recompute = "units", .further = 1},
        Sizes{.pp = 2, .dp = 2, .strategy = ShardingStrategy::optim_grads_params, .further = 1}),
    [](const auto& info) { return info.param.name(); });

/// With multi-token prediction both stages have the token table, which counts once.
TEST(DryRunReport, StagesTogetherAreTheModelThatPredictsFurtherTokens) {
  const DryRun whole = dry_run(setup_of(Sizes{.further = 1}));
  EXPECT_EQ(model_parameters(dry_run_stages(setup_of(Sizes{.tp = 2, .pp = 2, .further = 1}))),
            whole.parameters);
  // A block of H = 32 and F = 64, three norms, a projection [H, 2 H]; no tables.
  EXPECT_EQ(whole.parameters - dry_run(setup_of(Sizes{})).parameters,
            4 * 32 * 32 + 3 * 32 * 64 + 2 * 32 + 3 * 32 + 2 * 32 * 32);
}

TEST(DryRunReport, StagesTogetherAreTheModel) {
  const DryRun whole = dry_run(setup_of(Sizes{}));
  const auto stages = dry_run_stages(setup_of(Sizes{.tp = 2, .pp = 2}));
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(model_parameters(stages), whole.parameters);
  EXPECT_LT(stages[0].parameters, whole.parameters);
  EXPECT_EQ(stages[1].rank.value, 2) << "the first rank of the second stage";
  EXPECT_THAT(whole.traffic, IsEmpty());
}

// Thousands of ranks take no more than two: nothing is allocated and no rank waits.
TEST(DryRunReport, ThousandsOfRanks) {
  RunSetup setup = setup_of(Sizes{.tp = 2});
  setup.config.dist.ranks = 4096;
  setup.config.train.global_batch_size = 2048 * setup.config.train.micro_batch_rows();
  const DryRun run = dry_run(setup, {4095});
  int64_t data_ranks = 0;
  for (const GroupTraffic& traffic : run.traffic) {
    if (traffic.group == "dp_cp") data_ranks = traffic.ranks;
  }
  EXPECT_EQ(data_ranks, 2048);
}

}  // namespace
}  // namespace viaduct
