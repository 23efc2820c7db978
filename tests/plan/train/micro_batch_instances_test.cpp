// A dry run leaves out micro-batches that do the same as others. Its record, expanded, equals the
// record of a dry run that runs all of them, entry by entry; and so do its sums, with and without
// the record.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/dry_run.h"
#include "engine/plan_memory.h"
#include "support/record_text.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

struct Layout {
  std::string name;
  Overrides overrides;
  bool leaves_out = true;  // false: all micro-batches must run
  int first_rank = 0;      // a run that leaves micro-batches out
};

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

std::vector<std::string> sums(const DryRun& run, bool with_windows) {
  std::vector<std::string> list;
  list.push_back(fmt::format("{} launches, {}, {} host reads, peak {}, {} offloaded, {} FLOPs",
                             run.launches, cost_text(run.cost), run.host_reads, run.peak.bytes,
                             run.offload.put_bytes, run.model_flops));
  for (const auto& [tag, bytes] : run.peak.bytes_by_tag)
    list.push_back(fmt::format("peak of {}: {}", tag, bytes));
  for (const GroupTraffic& t : run.traffic)
    list.push_back(fmt::format("{} of {} ({} ranks): {}, {} bytes, {} sent",
                               choice_name(t.operation), t.group, t.ranks, t.count, t.bytes,
                               t.wire_bytes));
  if (with_windows) {
    list.push_back(fmt::format("peak at {}", run.peak.at));
    for (const SequenceWindow& window : run.windows)
      list.push_back(fmt::format("{} to {}", window.begin, window.end));
  }
  return list;
}

class MicroBatchInstances : public testing::TestWithParam<Layout> {};

TEST_P(MicroBatchInstances, AreRecordedAsIfTheyHadRun) {
  const RunSetup setup = setup_of(tiny_run() +
                                  Overrides{"model.num_layers=4", "train.micro_batch_size=1",
                                            "dist.threads_per_rank=1", "ddp.bucket_size=3000"} +
                                  GetParam().overrides);
  const int ranks = setup.config.dist.ranks;
  for (const int rank : std::set<int>{0, ranks / 2, ranks - 1}) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    StepRecord full_record, record;
    const DryRun full = dry_run(setup, {rank}, &full_record, true, true);
    const DryRun run = dry_run(setup, {rank}, &record, true);
    const DryRun without_record = dry_run(setup, {rank}, nullptr, true);
    EXPECT_EQ(full.instances, 0);
    EXPECT_EQ(run.instances > 0, GetParam().leaves_out && rank >= GetParam().first_rank);
    EXPECT_EQ(without_record.instances, run.instances);
    EXPECT_EQ(difference(record_entries(record), record_entries(full_record)), "");
    EXPECT_EQ(difference(sums(run, true), sums(full, true)), "");
    EXPECT_EQ(difference(sums(without_record, false), sums(full, false)), "");
  }
}

// With side streams (side_stream_instances_test.cpp has more layouts) the record has their edges.
TEST_P(MicroBatchInstances, AreRecordedAsIfTheyHadRunOnSideStreams) {
  RunSetup setup = setup_of(tiny_run() +
                            Overrides{"model.num_layers=4", "train.micro_batch_size=1",
                                      "dist.threads_per_rank=1", "ddp.bucket_size=3000",
                                      "model.packed_weights=false"} +
                            GetParam().overrides);
  setup.config.cuda_target = CudaTarget::sm_90a;
  const int ranks = setup.config.dist.ranks;
  for (const int rank : std::set<int>{0, ranks / 2, ranks - 1}) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    StepRecord full_record, record;
    const DryRun full = dry_run(setup, {rank}, &full_record, true, true);
    const DryRun run = dry_run(setup, {rank}, &record, true);
    const DryRun without_record = dry_run(setup, {rank}, nullptr, true);
    EXPECT_EQ(full.instances, 0);
    EXPECT_FALSE(full_record.edges().empty());
    const bool leaves_out = GetParam().leaves_out && rank >= GetParam().first_rank;
    EXPECT_EQ(run.instances > 0, leaves_out);
    EXPECT_EQ(without_record.instances > 0, leaves_out);
    EXPECT_EQ(difference(record_entries(record), record_entries(full_record)), "");
    EXPECT_EQ(difference(sums(run, true), sums(full, true)), "");
    EXPECT_EQ(difference(sums(without_record, false), sums(full, false)), "");
  }
}

std::vector<Layout> layouts() {
  const std::string pp = "model.pipeline_model_parallel_size=2",
                    tp = "model.tensor_model_parallel_size=2", cp = "model.context_parallel_size=2",
                    batch = "train.global_batch_size=9", even = "train.global_batch_size=12",
                    twice = "train.global_batch_size=18",
                    chunks = "model.virtual_pipeline_model_parallel_size=2",
                    overlap = "ddp.overlap_grad_reduce=true",
                    plain = "ddp.overlap_grad_reduce=false",
                    gather = "ddp.overlap_param_gather=true",
                    no_gather = "ddp.overlap_param_gather=false",
                    full = "model.recompute_granularity=full",
                    uniform = "model.recompute_method=uniform",
                    one_layer = "model.recompute_num_layers=1",
                    messages = "comm_overlap.overlap_p2p_comm=";
  return {
      {"alone", {batch, "mixed_precision=bf16_mixed"}},
      {"no_update", {batch, "optimizer.lr=0"}},
      {"gpt2",
       {batch, "model.family=gpt2", "model.hidden_dropout=0.1", "model.attention_dropout=0.1"}},
      {"selective",
       {batch, "model.recompute_granularity=selective",
        "model.recompute_modules=[core_attn, layernorm, mlp]"}},
      {"layers_recomputed", {batch, full, uniform, one_layer}},
      {"one_f_one_b", {"dist.ranks=2", pp, batch}},
      {"gpipe", {"dist.ranks=2", pp, batch, "model.pipeline_schedule=gpipe"}},
      {"zero_bubble", {"dist.ranks=2", pp, batch, "model.pipeline_schedule=zero_bubble"}},
      {"four_stages", {"dist.ranks=4", "model.pipeline_model_parallel_size=4", batch}},
      {"four_stages_zero_bubble",
       {"dist.ranks=4", "model.pipeline_model_parallel_size=4", batch,
        "model.pipeline_schedule=zero_bubble"}},
      {"interleaved", {"dist.ranks=4", tp, pp, "train.global_batch_size=24", chunks}},
      {"interleaved_data",
       {"dist.ranks=4", pp, "train.global_batch_size=48", chunks, overlap, gather}},
      {"interleaved_in_groups",
       {"dist.ranks=2", pp, even, chunks, "model.microbatch_group_size_per_vp_stage=4"}},
      {"batched_messages", {"dist.ranks=2", pp, even, chunks, messages + "false"}},
      {"ordered_messages",
       {"dist.ranks=2", pp, even, messages + "false", "model.batch_p2p_comm=false"}},
      {"outputs_kept", {"dist.ranks=2", pp, batch, "model.deallocate_pipeline_outputs=false"}},
      {"deferred_heads",
       {"dist.ranks=2", pp, batch, "comm_overlap.defer_embedding_wgrad_compute=true",
        "comm_overlap.wgrad_deferral_limit=0"}},
      {"some_deferred_heads",
       {"dist.ranks=2", pp, even, overlap, "comm_overlap.defer_embedding_wgrad_compute=true",
        "comm_overlap.wgrad_deferral_limit=2"}},
      {"partly_recomputed",
       {"dist.ranks=2", pp, "train.global_batch_size=16", full, "model.recompute_method=block",
        one_layer, "model.num_microbatches_with_partial_activation_checkpoints=1"}},
      {"context", {"dist.ranks=2", cp, batch}},
      {"context_all_gather", {"dist.ranks=2", cp, batch, "model.cp_comm_type=all_gather"}},
      {"context_two_levels",
       {"dist.ranks=4", "model.context_parallel_size=4", batch, "model.cp_comm_type=a2a+p2p",
        "model.hierarchical_context_parallel_sizes=[2, 2]"}},
      {"sequence", {"dist.ranks=2", tp, batch, "model.sequence_parallel=true"}},
      {"all_axes",
       {"dist.ranks=16", tp, pp, cp, twice, "model.sequence_parallel=true", overlap, gather}},
      {"data", {"dist.ranks=2", twice, "ddp.use_distributed_optimizer=false", overlap}},
      {"sharded_optimizer", {"dist.ranks=2", twice, overlap, gather}},
      {"optimizer_instances",
       {"dist.ranks=4", "train.global_batch_size=36", "ddp.num_distributed_optimizer_instances=2"}},
      {"gradients_in_bf16",
       {"dist.ranks=2", twice, "mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false"}},
      {"sharded_gradients",
       {"dist.ranks=2", twice, "ddp.data_parallel_sharding_strategy=optim_grads", plain,
        no_gather}},
      {"fully_sharded",
       {"dist.ranks=2", twice, "ddp.data_parallel_sharding_strategy=optim_grads_params", plain,
        no_gather}},
      // A gradient that is still being sent when the next micro-batch's backward begins.
      {"fully_sharded_overlapped",
       {"dist.ranks=2", twice, "ddp.data_parallel_sharding_strategy=optim_grads_params", overlap,
        gather},
       false},
      {"v",
       {"dist.ranks=2", pp, chunks, "model.pipeline_schedule=dualpipe_v",
        "train.global_batch_size=24"}},
      // The first stage's gradient of the table is open between the backwards of two chunks.
      {"tied_v_sharded",
       {"dist.ranks=4", pp, chunks, "model.pipeline_schedule=dualpipe_v",
        "train.global_batch_size=48", "model.share_embeddings_and_output_weights=true",
        "model.mtp_num_layers=1", "ddp.data_parallel_sharding_strategy=optim_grads_params", plain,
        no_gather},
       true,
       2},
      {"tied_v",
       {"dist.ranks=2", pp, chunks, "model.pipeline_schedule=dualpipe_v",
        "train.global_batch_size=24", "model.share_embeddings_and_output_weights=true",
        "model.mtp_num_layers=1"}},
      {"few", {"train.global_batch_size=4"}, false},
      {"shapes_first", {"dist.ranks=2", pp, batch, "model.variable_seq_lengths=true"}, false},
      {"offloaded",
       {batch, "model.cpu_offloading=true", "model.cpu_offloading_num_layers=2"},
       false},
      {"documents_shared",
       {"dist.ranks=4", "model.hybrid_context_parallel=true", "dataset.reset_attention_mask=true",
        "dataset.reset_position_ids=true", "dataset.eod_id=3", "model.seq_length=64",
        "model.max_seqlen_per_dp_cp_rank=40", "train.global_batch_size=36"},
       false},
  };
}

INSTANTIATE_TEST_SUITE_P(Layouts, MicroBatchInstances, testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

// The number of executed micro-batches does not grow with the number of all.
TEST(MicroBatchInstancesOfAnyNumber, FourMicroBatchesOfAKindAreRun) {
  for (const int64_t count : {5, 16, 64}) {
    const RunSetup setup =
        setup_of(tiny_run() + Overrides{"train.micro_batch_size=1", "dist.threads_per_rank=1",
                                        "train.global_batch_size=" + std::to_string(count)});
    EXPECT_EQ(dry_run(setup).instances, count - 4);
  }
}

}  // namespace
}  // namespace viaduct
