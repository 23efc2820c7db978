// The records of all ranks of a run match: every collective of a group is the same on all members,
// every send has its receive, every call among hosts is the same call; and the dry run of a rank
// records what that rank does.

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "engine/dry_run.h"
#include "engine/engine.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/record_layouts.h"
#include "support/record_text.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

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

bool is_message(const CollectiveRecord& c) {
  return c.operation == Collective::send || c.operation == Collective::receive;
}

using Group = std::pair<std::string, std::string>;  // name and members
using Number = std::tuple<Group, std::string, int64_t>;

/// The entries of each member for each collective and host call: all must agree.
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
        note("collective", c,
             fmt::format("{} {} bytes from {}", choice_name(c.operation), c.bytes, c.peer));
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

/// Checks that every send has its receive and the reverse; returns their number.
int64_t expect_paired_messages(const std::vector<StepRecord>& records) {
  using Message =
      std::tuple<Group, int, int, std::optional<Flow>, int64_t>;  // from, to, flow, sequence
  std::map<Message, int64_t> sends, receives;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto rank = static_cast<int>(i);
    for (const CollectiveRecord& c : records[i].collectives()) {
      if (!is_message(c)) continue;
      const bool sent = c.operation == Collective::send;
      const Group group{c.group, c.members->text()};
      const Message message{group, sent ? rank : c.peer, sent ? c.peer : rank, c.flow, c.sequence};
      EXPECT_TRUE((sent ? sends : receives).emplace(message, c.bytes).second) << c.group;
    }
  }
  EXPECT_EQ(sends, receives);
  return static_cast<int64_t>(sends.size());
}

class RecordPairs : public testing::TestWithParam<RecordLayout> {};

TEST_P(RecordPairs, TheRecordsOfAllRanksFitTogether) {
  const RunSetup setup = setup_of_layout(GetParam().overrides);
  const std::vector<StepRecord> records = records_of(setup);
  expect_equal_collectives(records);
  const int64_t messages = expect_paired_messages(records);
  EXPECT_EQ(messages > 0, GetParam().sends) << messages;
  for (size_t i = 0; i < records.size(); ++i) {
    SCOPED_TRACE("rank " + std::to_string(i));
    StepRecord record;
    const DryRun predicted = dry_run(setup, {static_cast<int>(i)}, &record);
    const StepRecord::Peak peak = records[i].peak();
    EXPECT_EQ(predicted.peak.bytes, peak.bytes);
    EXPECT_EQ(predicted.peak.bytes_by_tag, peak.bytes_by_tag);
    EXPECT_EQ(difference(record_entries(record), record_entries(records[i])), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, RecordPairs, testing::ValuesIn(record_layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
