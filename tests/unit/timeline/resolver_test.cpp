// Virtual time of hand-made records: hosts, streams, edges, collectives and messages.

#include "timeline/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A record made entry by entry. The FLOPs of an op are its seconds, and so are the bytes of a
/// collective.
class Program {
 public:
  explicit Program(int rank, int ranks = 2) : rank_(rank) {
    std::vector<int> all(static_cast<size_t>(ranks));
    for (int i = 0; i < ranks; ++i) all[static_cast<size_t>(i)] = i;
    members_ = std::make_shared<const RankRule>(RankRule::of(all));
  }
  Program& op(double seconds, int stream = 0, int spare = 0) {
    OpEntryRecord entry;
    entry.op = "op";
    entry.stream = stream;
    entry.cost.flops[0] = seconds;
    entry.spare_multiprocessors = spare;
    entry.stream_position = ++positions_[stream];
    record_.op(entry);
    return *this;
  }
  /// `stream` waits for everything that was queued in `before`.
  Program& wait(int stream, int before) {
    record_.edge({before, positions_[before], stream, positions_[stream] + 1});
    return *this;
  }
  Program& all_reduce(int64_t seconds, int stream) {
    return collective(Collective::all_reduce, seconds, stream, -1, sequence_++,
                      ++positions_[stream], -1);
  }
  /// Its kernels take this many multiprocessors from now on.
  Program& take(int multiprocessors) {
    taken_ = multiprocessors;
    return *this;
  }
  Program& message(Collective operation, int peer, int64_t seconds, int stream,
                   int64_t sequence = 0) {
    return collective(operation, seconds, stream, peer, sequence, ++positions_[stream], -1);
  }
  Program& exchange(int peer, int64_t seconds, int stream) {
    const int64_t position = ++positions_[stream];
    collective(Collective::send, seconds, stream, peer, 0, position, 0);
    return collective(Collective::receive, seconds, stream, peer, 0, position, 0);
  }
  Program& read() {
    record_.host_read("loss", positions_[0]);
    return *this;
  }
  RankRecord part() const { return {rank_, &record_, 0, record_.position()}; }

 private:
  Program& collective(Collective operation, int64_t seconds, int stream, int peer, int64_t sequence,
                      int64_t position, int64_t message_group) {
    CollectiveRecord entry;
    entry.operation = operation;
    entry.group = "dp";
    entry.ranks = members_->size();
    entry.bytes = seconds;
    entry.peer = peer;
    entry.members = members_;
    entry.place = rank_;
    entry.sequence = sequence;
    entry.message_group = message_group;
    entry.queue =
        peer < 0 ? entry.group : std::string(choice_name(operation)) + std::to_string(peer);
    entry.stream = stream;
    entry.stream_position = position;
    entry.multiprocessors = taken_;
    record_.launch(entry);
    return *this;
  }

  int rank_;
  StepRecord record_;
  std::shared_ptr<const RankRule> members_;
  std::map<int, int64_t> positions_;
  int taken_ = 0;
  int64_t sequence_ = 0;
};

MachineTimes machine(double launch = 0, double slowdown = 1) {
  return {.op = [](const OpEntryRecord& op) { return op.cost.flops[0]; },
          .collective = [](const CollectiveRecord& c) { return static_cast<double>(c.bytes); },
          .launch = launch,
          .host_wait = 0,
          .slowdown = slowdown};
}

TEST(Resolver, AStreamRunsOneOpAfterTheOther) {
  Program rank(0);
  rank.op(2).op(3);
  const RankTimes times = resolve_times({rank.part()}, machine()).front();
  EXPECT_EQ(times.ops[1].begin, 2);
  EXPECT_EQ(times.end, 5);
}

TEST(Resolver, ShortOpsWaitForTheHost) {
  Program rank(0);
  rank.op(1).op(1).op(1);
  const RankTimes times = resolve_times({rank.part()}, machine(4)).front();
  EXPECT_EQ(times.ops[2].begin, 12);
  EXPECT_EQ(times.end, 13);
}

TEST(Resolver, AValueThatTheHostReadsHoldsItBack) {
  Program rank(0);
  rank.op(10).read().op(1);
  const RankTimes times = resolve_times({rank.part()}, machine(1)).front();
  EXPECT_EQ(times.ops[1].begin, 12);  // launched at 1, done at 11, launched again until 12
}

TEST(Resolver, SideStreamsRunBesideComputeAndBehindWhatTheyWaitFor) {
  Program rank(0);
  rank.op(2).wait(1, 0).all_reduce(5, 1).op(4).wait(0, 1).op(1);
  const RankTimes times = resolve_times({rank.part()}, machine()).front();
  EXPECT_EQ(times.begun[0], 2);
  EXPECT_EQ(times.ops[1].begin, 2);  // beside the collective
  EXPECT_EQ(times.ops[2].begin, 7);
  EXPECT_EQ(times.end, 8);
}

TEST(Resolver, CollectivesBeginWhenTheLastMemberHasCome) {
  Program first(0), second(1);
  first.op(1).wait(1, 0).all_reduce(2, 1);
  second.op(5).wait(1, 0).all_reduce(2, 1);
  const auto times = resolve_times({first.part(), second.part()}, machine());
  EXPECT_EQ(times[0].collectives[0].begin, 1);
  EXPECT_EQ(times[0].begun[0], 5);
  EXPECT_EQ(times[0].collectives[0].end, 7);
  // If only one rank is given, the others of the group are assumed to join at the same time.
  EXPECT_EQ(resolve_times({first.part()}, machine()).front().begun[0], 1);
}

TEST(Resolver, MessagesMeetTheirOtherEnd) {
  Program first(0), second(1);
  first.op(3).wait(1, 0).message(Collective::send, 1, 2, 1);
  second.message(Collective::receive, 0, 2, 1).wait(0, 1).op(4);
  const auto times = resolve_times({first.part(), second.part()}, machine());
  EXPECT_EQ(times[1].begun[0], 3);
  EXPECT_EQ(times[1].ops[0].begin, 5);
  EXPECT_EQ(times[1].end, 9);
}

TEST(Resolver, MessagesThatAreSentTogetherDoNotWaitForEachOther) {
  Program first(0), second(1);
  first.op(3, 1).exchange(1, 2, 1).wait(0, 1).op(1);
  second.exchange(0, 2, 1).wait(0, 1).op(1);
  const auto times = resolve_times({first.part(), second.part()}, machine());
  EXPECT_EQ(times[0].ops[1].begin, 5);
  EXPECT_EQ(times[1].ops[0].begin, 5);  // both messages begin when both ends have joined
  EXPECT_EQ(times[1].begun[0], 3);
  EXPECT_EQ(times[1].begun[1], 3);
}

TEST(Resolver, RecordsThatDoNotMatchAreRefused) {
  // Each sends first, on one stream, and nobody has posted a receive.
  Program first(0), second(1);
  first.message(Collective::send, 1, 1, 1).message(Collective::receive, 1, 1, 1);
  second.message(Collective::send, 0, 1, 1).message(Collective::receive, 0, 1, 1);
  EXPECT_THAT(
      [&] {
        resolve_times({first.part(), second.part()}, machine());
      },
      ThrowsMessage<CommError>(AllOf(HasSubstr("rank 0: send 0 of dp with rank 1"),
                                     HasSubstr("rank 1: send 0 of dp with rank 0"))));
}

TEST(Resolver, WithoutSideStreamsTheHostComputesBesideItsMessages) {
  // Both post a receive, compute, and then send: in one stream they would wait forever.
  Program first(0), second(1);
  first.message(Collective::receive, 1, 4, 0).op(2).message(Collective::send, 1, 4, 0).op(1);
  second.message(Collective::receive, 0, 4, 0).op(3).message(Collective::send, 0, 4, 0).op(1);
  const auto times = resolve_times({first.part(), second.part()}, machine());
  EXPECT_EQ(times[0].ops[0].begin, 0);
  EXPECT_EQ(times[0].ops[1].begin, 2);
  EXPECT_EQ(times[0].begun[1], 2);
  EXPECT_EQ(times[0].begun[0], 3);  // when the other end sends
  EXPECT_EQ(times[0].end, 7);
  // The host launches the next op when the one before has run.
  EXPECT_EQ(resolve_times({first.part()}, machine(1)).front().ops[1].begin, 6);
}

TEST(Resolver, ComputeIsSlowerBesideCommunicationOnly) {
  Program rank(0);
  rank.wait(1, 0).all_reduce(4, 1).op(8).wait(0, 1).op(2);
  const RankTimes times = resolve_times({rank.part()}, machine(0, 1.5)).front();
  EXPECT_GT(times.ops[0].seconds(), 8);
  EXPECT_LT(times.ops[0].seconds(), 8 + 0.5 * 8);
  EXPECT_EQ(times.ops[1].seconds(), 2);
}

TEST(Resolver, ComputeIsSlowerAlsoIfLaterWorkOfAnotherStreamWasLaunchedBefore) {
  Program rank(0);
  rank.all_reduce(4, 1).wait(2, 1).op(3, 2).op(8);
  const RankTimes times = resolve_times({rank.part()}, machine(0, 1.5)).front();
  EXPECT_EQ(times.ops[0].begin, 4);
  EXPECT_EQ(times.ops[0].seconds(), 3);
  EXPECT_EQ(times.ops[1].begin, 0);
  EXPECT_GT(times.ops[1].seconds(), 8);
}

// The network is a link that operations use all of their time.
MachineTimes shared_network() {
  MachineTimes times = machine();
  times.link_use = [](const CollectiveRecord& c) {
    return LinkUse{0, static_cast<double>(c.bytes)};
  };
  return times;
}

TEST(Resolver, OperationsOfTheSameTimeShareTheLink) {
  Program rank(0);
  rank.all_reduce(4, 1).op(2).wait(2, 0).all_reduce(4, 2);
  EXPECT_EQ(resolve_times({rank.part()}, machine()).front().end, 6);
  const RankTimes times = resolve_times({rank.part()}, shared_network()).front();
  EXPECT_EQ(times.collectives[0].end, 6);  // alone until 2
  EXPECT_EQ(times.collectives[1].end, 8);  // alone from 6
}

TEST(Resolver, AMemberWithASlowLinkHoldsTheOthersBack) {
  Program first(0, 3), second(1, 3), third(2, 3);
  for (Program* rank : {&first, &second, &third}) rank->all_reduce(4, 1);
  first.message(Collective::send, 1, 4, 2);
  second.message(Collective::receive, 0, 4, 2);
  const auto times = resolve_times({first.part(), second.part(), third.part()}, shared_network());
  for (const RankTimes& rank : times) EXPECT_EQ(rank.collectives[0].end, 8);
}

TEST(Resolver, AMessageUsesOneDirectionOfTheLink) {
  Program first(0), second(1);
  first.message(Collective::send, 1, 4, 1).message(Collective::receive, 1, 4, 2);
  second.message(Collective::receive, 0, 4, 1).message(Collective::send, 0, 4, 2);
  EXPECT_EQ(resolve_times({first.part(), second.part()}, shared_network()).front().end, 4);
  // Two that go the same way share it.
  Program source(0), target(1);
  source.exchange(1, 4, 1);
  target.exchange(0, 4, 1);
  source.message(Collective::send, 1, 4, 2, 7);
  target.message(Collective::receive, 0, 4, 2, 7);
  EXPECT_EQ(resolve_times({source.part(), target.part()}, shared_network()).front().end, 8);
}

TEST(Resolver, AnyNumberOfThreadsGivesTheSameTimes) {
  // Four ranks in a ring that also sum: each op takes another third of a second.
  std::vector<Program> programs;
  for (int rank = 0; rank < 4; ++rank) {
    Program& program = programs.emplace_back(rank, 4);
    for (int i = 0; i < 5; ++i) {
      program.op((rank + 2 * i + 1) / 3.0).wait(1, 0);
      if (rank < 3) program.message(Collective::send, rank + 1, i + 1, 1, i);
      if (rank > 0) program.message(Collective::receive, rank - 1, i + 1, 2, i).wait(0, 2);
      program.op((7 * rank + i) / 9.0).wait(3, 0).all_reduce(1, 3).read();
    }
  }
  std::vector<RankRecord> records;
  for (const Program& program : programs) records.push_back(program.part());
  const auto flat = [](const std::vector<RankTimes>& all) {
    std::vector<double> list;
    for (const RankTimes& times : all) {
      for (const auto* spans : {&times.ops, &times.collectives})
        for (const TimeSpan& span : *spans) list.insert(list.end(), {span.begin, span.end});
      list.insert(list.end(), times.begun.begin(), times.begun.end());
      list.insert(list.end(), {times.end, times.host_end});
    }
    return list;
  };
  const std::vector<double> alone = flat(resolve_times(records, machine(0.01, 1.3)));
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    EXPECT_EQ(flat(resolve_times(records, machine(0.01, 1.3), &pool)), alone) << threads;
  }
}

TEST(Resolver, TimesOnlyThePartThatIsAskedFor) {
  Program rank(0);
  rank.op(2);
  const int64_t begin = rank.part().end;
  rank.op(3);
  RankRecord part = rank.part();
  part.begin = begin;
  const RankTimes times = resolve_times({part}, machine()).front();
  EXPECT_EQ(times.ops[0].end, 0);
  EXPECT_EQ(times.end, 3);
}

/// The seconds of an op of 12 beside a sum of 6, of which `taken` of 8 multiprocessors do the work.
double beside(int taken, int spare, double slowdown = 1) {
  Program rank(0, 1);
  rank.take(taken).all_reduce(6, 1).op(12, 0, spare);
  MachineTimes times = machine(0, slowdown);
  times.multiprocessors = 8;
  return resolve_times({rank.part()}, times).front().ops[0].seconds();
}

TEST(Resolver, AnOpHasTheMultiprocessorsThatCommunicationLeaves) {
  EXPECT_DOUBLE_EQ(beside(0, 0), 12);
  EXPECT_NEAR(beside(0, 0, 1.5), 14, 0.5) << "not told: the machine's factor";
  EXPECT_NEAR(beside(2, 0, 3), 13.5, 0.5) << "6 seconds with 6 of 8, instead of the factor";
  EXPECT_NEAR(beside(4, 0), 15, 1.1);
}

TEST(Resolver, AProductThatLeavesMultiprocessorsHasTheOthersAllTheTime) {
  EXPECT_DOUBLE_EQ(beside(2, 2), 16) << "12 · 8 / 6";
  EXPECT_DOUBLE_EQ(beside(2, 4), 24);
  EXPECT_GT(beside(4, 2), 16) << "communication takes more than it leaves";
}

TEST(Resolver, BesideSeveralOperationsTheLargestTakesMost) {
  Program rank(0);
  rank.take(2).all_reduce(8, 1).take(4).message(Collective::send, 1, 4, 2).op(8);
  MachineTimes times = machine();
  times.multiprocessors = 8;
  const RankTimes found = resolve_times({rank.part()}, times).front();
  EXPECT_GT(found.ops[0].seconds(), 8 * (1 + 1.0 / 3));
}

}  // namespace
}  // namespace viaduct
