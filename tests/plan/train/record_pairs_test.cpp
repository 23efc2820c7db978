// The records of all ranks of a run fit together: every collective of a group is the same one on
// all members, every send is its receive, every call among hosts the same call; and the dry run of
// a rank records what that rank does.

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "engine/dry_run.h"
#include "engine/engine.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

struct Layout {
  std::string name;
  Overrides overrides;
  bool sends = false;  // messages from rank to rank
};

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

RunSetup setup_of_layout(const Overrides& overrides) {
  return setup_of(tiny_run() +
                  Overrides{"model.num_layers=4", "train.global_batch_size=8",
                            "train.micro_batch_size=1", "dist.threads_per_rank=1"} +
                  overrides);
}

/// Setup and two steps of all ranks, as threads.
std::vector<StepRecord> records_of(const RunSetup& setup) {
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  std::vector<StepRecord> records(static_cast<size_t>(setup.config.dist.ranks));
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    rank.device->set_record(&records[static_cast<size_t>(world->rank())]);
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
    }
    rank.device->set_record(nullptr);
  });
  return records;
}

std::vector<std::string> lines(const StepRecord& record) {
  std::map<int64_t, std::string> events;
  for (const CollectiveRecord& c : record.collectives())
    events[c.launched_at] = fmt::format(
        "{} {} of {} (place {} of {}), number {}, with {}, group of messages {}: {} bytes, {} sent",
        c.operation, c.flow, c.group, c.place, c.members->text(), c.sequence, c.peer,
        c.message_group, c.bytes, c.wire_bytes);
  for (const HostCallRecord& c : record.host_calls()) {
    events[c.posted_at] = fmt::format("{} of {} ({}), number {}: {} bytes", c.what, c.group,
                                      c.members->text(), c.sequence, c.bytes);
    if (c.wait_at >= 0) events[c.wait_at] = fmt::format("wait for {} {}", c.what, c.sequence);
  }
  for (const HostReadRecord& read : record.host_reads()) events[read.at] = "read " + read.reason;
  std::vector<std::string> list;
  for (const auto& [at, line] : events) list.push_back(fmt::format("{}: {}", at, line));
  return list;
}

bool is_message(const CollectiveRecord& c) {
  return c.operation == "send" || c.operation == "receive";
}

using Group = std::pair<std::string, std::string>;  // name and members
using Number = std::tuple<Group, std::string, int64_t>;

/// What each member says of each collective and host call: all say the same.
void expect_equal_collectives(const std::vector<StepRecord>& records) {
  std::map<Number, std::map<int, std::string>> said;
  std::map<Number, std::shared_ptr<const RankRule>> members;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    const auto note = [&](const std::string& kind, const auto& entry, const std::string& what) {
      ASSERT_NE(entry.members, nullptr);
      ASSERT_EQ(entry.members->member(entry.place), static_cast<int>(rank)) << entry.group;
      const Number number{{entry.group, entry.members->text()}, kind, entry.sequence};
      ASSERT_TRUE(said[number].emplace(static_cast<int>(rank), what).second)
          << entry.group << " number " << entry.sequence << " twice on rank " << rank;
      members[number] = entry.members;
    };
    for (const CollectiveRecord& c : records[rank].collectives()) {
      ASSERT_EQ(c.members->size(), c.ranks) << c.group;
      if (!is_message(c))
        note("collective", c, fmt::format("{} {} bytes from {}", c.operation, c.bytes, c.peer));
    }
    for (const HostCallRecord& c : records[rank].host_calls())
      note("host call", c, fmt::format("{} {} bytes", c.what, c.bytes));
  }
  EXPECT_GT(said.size(), 10u);
  for (const auto& [number, by_rank] : said) {
    EXPECT_EQ(static_cast<int>(by_rank.size()), members.at(number)->size());
    for (const auto& [rank, what] : by_rank)
      EXPECT_EQ(what, by_rank.begin()->second)
          << std::get<0>(number).first << " number " << std::get<2>(number) << ", rank " << rank;
  }
}

/// Every send has its receive and the other way round; how many there are.
int64_t expect_paired_messages(const std::vector<StepRecord>& records) {
  using Message = std::tuple<Group, int, int, std::string, int64_t>;  // from, to, flow, sequence
  std::map<Message, int64_t> sends, receives;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto rank = static_cast<int>(i);
    for (const CollectiveRecord& c : records[i].collectives()) {
      if (!is_message(c)) continue;
      const bool sent = c.operation == "send";
      const Group group{c.group, c.members->text()};
      const Message message{group, sent ? rank : c.peer, sent ? c.peer : rank, c.flow, c.sequence};
      EXPECT_TRUE((sent ? sends : receives).emplace(message, c.bytes).second) << c.group;
    }
  }
  EXPECT_EQ(sends, receives);
  return static_cast<int64_t>(sends.size());
}

class RecordPairs : public testing::TestWithParam<Layout> {};

TEST_P(RecordPairs, TheRecordsOfAllRanksFitTogether) {
  const RunSetup setup = setup_of_layout(GetParam().overrides);
  const std::vector<StepRecord> records = records_of(setup);
  expect_equal_collectives(records);
  const int64_t messages = expect_paired_messages(records);
  EXPECT_EQ(messages > 0, GetParam().sends) << messages;
  for (size_t i = 0; i < records.size(); ++i) {
    StepRecord record;
    dry_run(setup, {static_cast<int>(i)}, &record);
    EXPECT_EQ(lines(record), lines(records[i])) << "rank " << i;
  }
}

std::vector<Layout> layouts() {
  const std::string pp = "model.pipeline_model_parallel_size=2",
                    tp = "model.tensor_model_parallel_size=2";
  return {
      {"pp_chunks", {"dist.ranks=4", pp, tp, "model.virtual_pipeline_model_parallel_size=2"}, true},
      {"pp_zero_bubble", {"dist.ranks=4", pp, "model.pipeline_schedule=zero_bubble"}, true},
      {"ring", {"dist.ranks=4", "model.context_parallel_size=4", "model.cp_comm_type=p2p"}, true},
      {"ring_of_rings",
       {"dist.ranks=4", "model.context_parallel_size=4", "model.cp_comm_type=a2a+p2p",
        "model.hierarchical_context_parallel_sizes=[2, 2]"},
       true},
      {"exchanged", {"dist.ranks=2", "model.context_parallel_size=2", "model.cp_comm_type=a2a"}},
      {"data_sharded",
       {"dist.ranks=4", tp, "model.sequence_parallel=true", "ddp.use_distributed_optimizer=true",
        "ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true", "ddp.bucket_size=3000"},
       true},
      {"gathered_experts",
       {"dist.ranks=4", "model.family=qwen2_moe", "model.num_moe_experts=4",
        "model.moe_shared_expert_intermediate_size=32", "model.expert_model_parallel_size=2",
        "model.expert_tensor_parallel_size=2", "model.moe_token_dispatcher_type=allgather"}},
      {"v",
       {"dist.ranks=4", pp, "model.virtual_pipeline_model_parallel_size=2",
        "model.pipeline_schedule=dualpipe_v"},
       true},
      {"tied_v",
       {"dist.ranks=4", pp, "model.virtual_pipeline_model_parallel_size=2",
        "model.pipeline_schedule=dualpipe_v", "model.share_embeddings_and_output_weights=true",
        "model.mtp_num_layers=1"},
       true},
      {"experts_by_domain",
       {"dist.ranks=4", "model.family=qwen2_moe", "model.num_moe_experts=4",
        "model.moe_shared_expert_intermediate_size=32", "model.expert_model_parallel_size=4",
        "model.moe_token_dispatcher_type=flex", "dist.nvlink_domain_size=2",
        "model.moe_dispatch_fwd_dtype=mxfp8"}},
      {"scaled_choice",
       {"dist.ranks=4", "model.family=qwen3_moe", "model.num_moe_experts=4", tp,
        "model.context_parallel_size=2", "model.expert_tensor_parallel_size=1",
        "model.moe_router_topk=2", "model.moe_router_load_balancing_type=sinkhorn"},
       true},
      {"instances",
       {"dist.ranks=4", "ddp.use_distributed_optimizer=true",
        "ddp.num_distributed_optimizer_instances=2"}},
      {"shared_state",
       {"dist.ranks=4", "ddp.num_distributed_optimizer_instances=2",
        "ddp.outer_dp_sharding_strategy=optim"}},
      {"hybrid",
       {"dist.ranks=4", "model.hybrid_context_parallel=true", "dataset.reset_attention_mask=true",
        "dataset.reset_position_ids=true", "dataset.eod_id=3", "model.seq_length=64",
        "model.max_seqlen_per_dp_cp_rank=40"},
       true}};
}

INSTANTIATE_TEST_SUITE_P(Layouts, RecordPairs, testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
