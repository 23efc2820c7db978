// A record whose log has instances: conditions against them, and the content of the expanded
// record.

#include "timeline/record_expansion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "timeline/repeats.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A step of micro-batches 0, 1, 2, [3 and 4 left out,] 5: each sends a message in one action and
/// waits for it in another, with compute and memory in between.
class Steps {
 public:
  Steps() {
    record_.set_timed(false);
    record_.set_with_stream_calls(true);
  }

  CollectiveRecord message(int64_t sequence) {
    CollectiveRecord c;
    c.operation = Collective::send, c.group = "pp", c.flow = Flow::activations, c.peer = 1,
    c.members = members_;
    c.sequence = sequence, c.message_group = sequence;
    return c;
  }
  void begin(int64_t micro_batch, int64_t number, int64_t recorded_as = -1) {
    log_.back().actions.push_back({micro_batch, recorded_as < 0 ? micro_batch : recorded_as, number,
                                   record_.position(), record_.position(), calls(), calls()});
  }
  void end() {
    log_.back().actions.back().end = record_.position();
    log_.back().actions.back().calls_end = calls();
  }
  void op(int64_t read) {
    OpEntryRecord op;
    op.op = "gemm", op.cost.bytes_read = read, op.stream_position = calls() + 1;
    record_.stream_call({.position = op.stream_position});
    record_.op(std::move(op));
  }

  /// `read`: bytes that the op of the third micro-batch reads.
  void run_step(int64_t read = 7) {
    log_.emplace_back().alike = {{1, 2}};
    std::vector<int64_t> sent(6);
    op(1);
    for (int64_t i = 0; i < 6; ++i) {
      const bool instance = i == 3 || i == 4;
      begin(i, 0, instance ? 2 : -1);
      if (instance) continue;
      {
        const RecordScope scope(&record_, ScopeKind::phase, "forward", {}, i, 0);
        record_.allocate(ids_ + i, 10 + (i == 0), "saved");
        op(i == 2 ? read : 7);
        sent[size_t(i)] = record_.launch(message(sequence_++));
      }
      end();
    }
    for (int64_t i = 0; i < 6; ++i) {
      const bool instance = i == 3 || i == 4;
      begin(i, 1, instance ? 2 : -1);
      if (instance) continue;
      record_.complete(sent[size_t(i)], 0, 0, 0);
      record_.release(ids_ + i, 10, "saved");
      end();
    }
    op(1);
    ids_ += 6;
  }

  const StepRecord& record() const { return record_; }
  StepRecord& record() { return record_; }
  int64_t calls() const { return static_cast<int64_t>(record_.stream_calls().size()); }
  const ActionLog& log() const { return log_; }

 private:
  StepRecord record_;
  ActionLog log_;
  std::shared_ptr<const RankRule> members_ = std::make_shared<RankRule>(RankRule::first(2));
  int64_t sequence_ = 0, ids_ = 0;
};

TEST(RecordExpansion, InstancesTakeTheirPlaceAndTheirNumbers) {
  Steps steps;
  steps.run_step();
  steps.run_step();
  ASSERT_EQ(against_repeats(steps.record(), steps.log()), std::nullopt);
  const RecordExpansion expansion(steps.record(), steps.log());
  const ExpandedRecord all = expanded(expansion);
  ASSERT_EQ(all.record.collectives().size(), 12u);
  ASSERT_EQ(all.record.scopes().size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    const auto number = static_cast<int64_t>(i);
    EXPECT_EQ(all.record.collectives()[i].sequence, number) << "of the channel";
    EXPECT_EQ(all.record.collectives()[i].message_group, number);
    EXPECT_EQ(all.record.collectives()[i].scope, number);
    EXPECT_EQ(all.record.allocations()[i].bytes, i % 6 == 0 ? 11 : 10);
    EXPECT_EQ(all.record.scopes()[i].micro_batch, number % 6);
    // Six equal micro-batches in a step, in 5 and 2 positions, between two ops.
    const int64_t step = number / 6 * 44, begin = step + 1 + number % 6 * 5;
    EXPECT_EQ(all.record.scopes()[i].begin_at, begin);
    EXPECT_EQ(all.record.allocations()[i].allocated_at, begin + 1);
    EXPECT_EQ(all.record.collectives()[i].launched_at, begin + 3);
    EXPECT_EQ(all.record.collectives()[i].completed_at, step + 31 + number % 6 * 2);
    EXPECT_EQ(all.record.allocations()[i].released_at, step + 32 + number % 6 * 2);
  }
  ASSERT_EQ(all.record.ops().size(), 16u);
  for (size_t i = 0; i < 16; ++i)
    EXPECT_EQ(all.record.ops()[i].stream_position, static_cast<int64_t>(i) + 1);
  ASSERT_EQ(static_cast<int64_t>(all.positions.size()), steps.record().position() + 1);
  EXPECT_EQ(all.positions.front(), 0);
  EXPECT_EQ(all.positions.back(), all.record.position());
  EXPECT_EQ(all.record.position(), 2 * 44);
  EXPECT_EQ(expansion.peak().bytes, 61);
  EXPECT_EQ(expansion.peak().bytes_by_tag, all.record.peak().bytes_by_tag);
  EXPECT_EQ(all.record.peak().bytes, 61);
}

using Counts = std::map<std::pair<RecordEventKind, int64_t>, int64_t>;

/// How often each entry begins or ends at positions of the record, event by event.
Counts walked(const RecordExpansion& all, int64_t begin, int64_t end) {
  Counts counts;
  all.for_each([&](const ExpandedEvent& e) {
    if (e.at >= begin && e.at < end) ++counts[{e.event.kind, e.event.index}];
  });
  return counts;
}

TEST(RecordExpansion, CountsAreThoseOfAWalk) {
  Steps steps;
  steps.run_step();
  const int64_t between = steps.record().position();
  steps.run_step();
  const RecordExpansion all(steps.record(), steps.log());
  const int64_t end = steps.record().position();
  for (const auto& [from, to] : {std::pair{int64_t{0}, end}, {between, end}, {0, between + 9}}) {
    Counts counts;
    all.for_each_repeated(from, to, [&](const RecordEvent& event, int64_t times) {
      counts[{event.kind, event.index}] += times;
    });
    EXPECT_EQ(counts, walked(all, from, to)) << from << " to " << to;
  }
}

// Each keeps 10 bytes and needs 5 more meanwhile; the last one needs 4 alone.
TEST(RecordExpansion, ThePeakMayBeInAnInstance) {
  StepRecord record;
  record.set_timed(false);
  record.set_with_stream_calls(true);
  ActionLog log(1);
  log[0].alike = {{1, 2}};
  int64_t id = 0;
  for (int64_t i = 0; i < 6; ++i) {
    const bool instance = i == 3 || i == 4;
    const int64_t begin = record.position();
    if (!instance) {
      record.allocate(id++, i < 5 ? 10 : 4, "saved");
      if (i < 5) {
        record.allocate(id, 5, "workspace");
        record.release(id++, 5, "workspace");
      } else {
        record.release(id - 1, 4, "saved");
      }
    }
    log[0].actions.push_back({i, instance ? 2 : i, 0, begin, record.position(), 0, 0});
  }
  const RecordExpansion all(record, log);
  const StepRecord::Peak peak = all.peak(), whole = expanded(all).record.peak();
  EXPECT_EQ(peak.bytes, 55);
  EXPECT_EQ(peak.bytes, whole.bytes);
  EXPECT_EQ(peak.bytes_by_tag, whole.bytes_by_tag);
  EXPECT_EQ(peak.bytes_by_tag, (std::map<std::string, int64_t>{{"saved", 50}, {"workspace", 5}}));
  EXPECT_EQ(peak.at, 9) << "the fifth one stands before the sixth";
}

TEST(RecordExpansion, WithoutInstancesItIsTheRecord) {
  Steps steps;
  steps.op(3);
  const ExpandedRecord all = expanded(RecordExpansion(steps.record(), {}));
  EXPECT_EQ(all.record.position(), 1);
  EXPECT_THAT(all.positions, ElementsAre(0, 1));
}

TEST(Repeats, AnotherCostSpeaksAgainstThem) {
  Steps steps;
  steps.run_step();
  steps.run_step(8);
  const auto found = against_repeats(steps.record(), steps.log());
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(*found, HasSubstr("micro-batches 1 and 2, action 0, event 2: gemm"));
  EXPECT_THAT(*found, HasSubstr("7 and 0 bytes"));
  EXPECT_THAT(*found, HasSubstr("8 and 0 bytes"));
}

// Each frees what the one before it allocated: equal, yet none is complete without the other.
TEST(Repeats, WhatAMicroBatchLeavesToTheNextSpeaksAgainstThem) {
  StepRecord record;
  ActionLog log(1);
  log[0].alike = {{1, 2}};
  record.allocate(0, 5, "saved");
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t begin = record.position(), recorded_as = i == 3 ? 2 : i;
    if (i != 3) {
      record.allocate(i + 1, 5, "saved");
      record.release(i == 4 ? 3 : i, 5, "saved");
    }
    log[0].actions.push_back({i, recorded_as, 0, begin, record.position(), 0, 0});
  }
  const auto found = against_repeats(record, log);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(*found, HasSubstr("outside of the micro-batch"));
}

TEST(Repeats, AQuestionToOtherHostsSpeaksAgainstThem) {
  StepRecord record;
  ActionLog log(1);
  log[0].alike = {{1, 2}};
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t begin = record.position(), recorded_as = i == 3 ? 2 : i;
    if (i != 3) record.host_call({.what = "figures", .group = "world"});
    log[0].actions.push_back({i, recorded_as, 0, begin, record.position(), 0, 0});
  }
  EXPECT_TRUE(against_repeats(record, log).has_value());
  log[0].alike.clear();
  EXPECT_EQ(against_repeats(record, log), std::nullopt) << "nothing is left out";
}

}  // namespace
}  // namespace viaduct
