// With the streams of a GPU, a dry run that leaves out micro-batches has the record of one that
// runs all of them, with the edges between streams, for all axes and their settings. So it takes
// the same time.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/dry_run.h"
#include "run/resolved_run.h"
#include "support/record_layouts.h"
#include "support/record_text.h"
#include "timeline/resolver.h"

namespace viaduct {
namespace {

using namespace test;

/// Those in which all micro-batches of a rank run: there are at most four of a kind, they differ or
/// pass something on, or the settings ask for it.
const std::set<std::string> kInFull{"hybrid",
                                    "sharded_gradients",
                                    "fully_sharded",
                                    "two_buffers",
                                    "fully_sharded_overlapped",
                                    "hidden_exchange",
                                    "fully_sharded_stages",
                                    "partly_recomputed",
                                    "offloaded_layers",
                                    "offloaded_modules",
                                    "offloaded_state",
                                    "graphs_in_stages",
                                    "step_graph"};
/// Formats of which the GPU has no products, at all or of these sizes.
const std::set<std::string> kWithoutKernels{"fp8_delayed", "mxfp8", "nvfp4", "adapters_mxfp8"};

std::vector<RecordLayout> layouts() {
  std::vector<RecordLayout> all = record_layouts();
  std::erase_if(all, [](const auto& layout) { return kWithoutKernels.contains(layout.name); });
  const std::string stages = "model.pipeline_model_parallel_size=2",
                    chunks = "model.virtual_pipeline_model_parallel_size=2",
                    tensor = "model.tensor_model_parallel_size=2",
                    sequence = "model.sequence_parallel=true", bf16 = "mixed_precision=bf16_mixed";
  const Overrides overlap{"dist.ranks=4", stages, tensor,
                          sequence,       bf16,   "comm_overlap.tp_comm_overlap=true"};
  const Overrides experts{"model.family=mixtral", "model.num_moe_experts=4", bf16,
                          "model.moe_router_topk=2", "model.expert_model_parallel_size=2"};
  const Overrides graphs{"model.cuda_graph_impl=local", bf16};
  const std::vector<RecordLayout> more = {
      {"products_overlapped", overlap},
      {"gradients_overlapped", overlap + Overrides{"comm_overlap.tp_comm_overlap_rs_dgrad=true",
                                                   "comm_overlap.tp_comm_bulk_dgrad=false",
                                                   "comm_overlap.tp_comm_bulk_wgrad=false"}},
      {"chunks_with_products", overlap + Overrides{chunks, "ddp.overlap_grad_reduce=true",
                                                   "ddp.overlap_param_gather=true"}},
      // Two groups of micro-batches take turns with the chunks.
      {"chunks_of_four_stages",
       {"dist.ranks=8", "model.pipeline_model_parallel_size=4", "model.num_layers=8", chunks, bf16,
        "ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true", "ddp.bucket_size=3000"}},
      {"dropless_experts", Overrides{"dist.ranks=4", stages} + experts},
      {"dropless_gathered",
       Overrides{"dist.ranks=2", "model.moe_token_dispatcher_type=allgather"} + experts},
      {"dropless_flex", Overrides{"dist.ranks=4", "model.moe_token_dispatcher_type=flex",
                                  "dist.nvlink_domain_size=2"} +
                            experts + Overrides{"model.expert_model_parallel_size=4"}},
      {"weights_later", Overrides{"dist.ranks=4", stages, chunks} + experts +
                            Overrides{"comm_overlap.overlap_moe_expert_parallel_comm=true",
                                      "comm_overlap.delay_wgrad_compute=true"}},
      {"layer_graphs", Overrides{"dist.ranks=2", tensor, sequence} + graphs},
      {"graphs_in_stages", Overrides{"dist.ranks=2", stages, chunks} + graphs},
      {"step_graph", {"dist.ranks=1", bf16, "model.cuda_graph_impl=full_iteration"}},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Eight micro-batches or more of one row.
RunSetup setup_on_gpu(const RecordLayout& layout) {
  const auto with = [&](int64_t rows) {
    return setup_of(tiny_run() +
                    Overrides{"model.num_layers=4", "train.micro_batch_size=1",
                              "dist.threads_per_rank=1", "model.packed_weights=false"} +
                    layout.overrides + Overrides{fmt::format("train.global_batch_size={}", rows)});
  };
  const RunSetup any = with(16);
  const Mesh& mesh = resolve_run(any.config, any.model).parallelism.mesh;
  RunSetup setup =
      with(8 * mesh.ranks() / (mesh.size(Axis::tp) * mesh.size(Axis::pp) * mesh.size(Axis::cp)));
  setup.config.cuda_target = CudaTarget::sm_90a;
  return setup;
}

class SideStreamInstances : public testing::TestWithParam<RecordLayout> {};

TEST_P(SideStreamInstances, AreRecordedAsIfTheyHadRun) {
  const RunSetup setup = setup_on_gpu(GetParam());
  const int ranks = setup.config.dist.ranks;
  bool all_leave_out = true;
  for (const int rank : std::set<int>{0, ranks / 2, ranks - 1}) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    StepRecord full_record, record;
    const DryRun full = dry_run(setup, {rank}, &full_record, true, true);
    const DryRun run = dry_run(setup, {rank}, &record, true);
    EXPECT_EQ(full.instances, 0);
    all_leave_out = all_leave_out && run.instances > 0;
    EXPECT_EQ(difference(record_entries(record), record_entries(full_record)), "");
    EXPECT_EQ(run.peak.bytes, full.peak.bytes);
    EXPECT_EQ(run.peak.bytes_by_tag, full.peak.bytes_by_tag);
    for (size_t i = 0; i < full.windows.size(); ++i) {
      EXPECT_EQ(run.windows[i].begin, full.windows[i].begin);
      EXPECT_EQ(run.windows[i].end, full.windows[i].end);
    }
  }
  EXPECT_EQ(all_leave_out, !kInFull.contains(GetParam().name));
}

INSTANTIATE_TEST_SUITE_P(Layouts, SideStreamInstances, testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

/// When everything of a step of `stages` begins and ends, with durations that are no round figures.
std::vector<RankTimes> times_of(const RunSetup& setup, bool in_full) {
  const auto ranks = resolve_run(setup.config, setup.model).parallelism.mesh.group({0}, {Axis::pp});
  std::vector<StepRecord> records(ranks.size());
  std::vector<RankRecord> timed;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const DryRun run = dry_run(setup, ranks[i], &records[i], false, in_full);
    timed.push_back({ranks[i].value, &records[i],
                     run.windows[static_cast<size_t>(MemorySequence::initialize)].end,
                     run.windows[static_cast<size_t>(MemorySequence::step)].end});
  }
  return resolve_times(
      timed,
      {.op = [](const OpEntryRecord& op) { return 1e-6 + op.cost.total_flops() / 3e12; },
       .collective =
           [](const CollectiveRecord& c) { return 3e-6 + static_cast<double>(c.bytes) / 7e9; },
       .launch = 1e-6,
       .host_wait = 1e-5,
       .slowdown = 1.1,
       .link_use = [](const CollectiveRecord& c) -> LinkUse {
         return {static_cast<double>(c.bytes) / 9e9, 0};
       }});
}

bool same(const std::vector<TimeSpan>& a, const std::vector<TimeSpan>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& two) {
    return one.begin == two.begin && one.end == two.end;
  });
}

TEST(SideStreamInstancesInTime, TakeWhatAllMicroBatchesTake) {
  for (const RecordLayout& layout : layouts()) {
    if (layout.name != "chunks_with_products" && layout.name != "dropless_experts" &&
        layout.name != "zero_bubble")
      continue;
    SCOPED_TRACE(layout.name);
    const RunSetup setup = setup_on_gpu(layout);
    const auto full = times_of(setup, true), times = times_of(setup, false);
    ASSERT_EQ(times.size(), full.size());
    for (size_t stage = 0; stage < full.size(); ++stage) {
      EXPECT_GT(full[stage].end, 0);
      EXPECT_EQ(times[stage].end, full[stage].end);
      EXPECT_TRUE(same(times[stage].ops, full[stage].ops));
      EXPECT_TRUE(same(times[stage].collectives, full[stage].collectives));
    }
  }
}

}  // namespace
}  // namespace viaduct
