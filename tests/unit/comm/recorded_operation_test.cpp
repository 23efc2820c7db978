// The record of an operation, beside its bytes: members, sequence number in the group, and the time
// for which the host was blocked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/comm_group.h"
#include "comm/communicator.h"
#include "device/recording.h"

namespace viaduct {
namespace {

using testing::ElementsAre;

/// Rank 5 of eight simulated ranks, and its group with ranks 1, 3 and 7.
struct Sim {
  explicit Sim(bool side_streams) : device(make_sim_device(side_streams)) {
    world->record_on(device.get());
    part = world->split({1, 3, 5, 7}, "odd");
  }
  Tensor tensor() const { return device->allocate(DType::f32, {4}, MemoryTag::activations); }

  std::unique_ptr<Device> device;
  StepRecord record;
  std::shared_ptr<Communicator> world = make_sim_communicator(5, 8, "world"), part;
};

std::vector<int64_t> sequences(const StepRecord& record) {
  std::vector<int64_t> list;
  for (const CollectiveRecord& entry : record.collectives()) list.push_back(entry.sequence);
  return list;
}

TEST(RecordedOperation, NamesItsMembersAsRanksOfTheRun) {
  Sim sim(false);
  const Recording recording(*sim.device, sim.record);
  const auto inner = sim.part->split({2, 3}, "upper");
  inner->all_reduce(sim.tensor(), ReduceOp::sum).wait();
  sim.part->send(sim.tensor(), 0, Flow::gradients).wait();
  sim.part->broadcast(sim.tensor(), 3).wait();
  const auto& all = sim.record.collectives();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].members->text(), "5 + 2·[0, 2)");
  EXPECT_EQ(all[0].place, 0);
  EXPECT_EQ(all[0].peer, -1);
  EXPECT_EQ(all[0].flow, std::nullopt);
  EXPECT_EQ(all[1].members->text(), "1 + 2·[0, 4)");
  EXPECT_EQ(all[1].place, 2);
  EXPECT_EQ(all[1].peer, 1);
  EXPECT_EQ(all[1].flow, Flow::gradients);
  EXPECT_EQ(all[2].peer, 7);
  EXPECT_EQ(sim.world->members().text(), "0 + 1·[0, 8)");
}

TEST(RecordedOperation, CountsWhatNobodyRecordedToo) {
  Sim sim(false);
  const Tensor tensor = sim.tensor();
  for (int i = 0; i < 3; ++i) sim.part->all_reduce(tensor, ReduceOp::sum).wait();
  sim.part->send(tensor, 0, Flow::gradients).wait();
  const Recording recording(*sim.device, sim.record);
  sim.part->broadcast(tensor, 0).wait();
  sim.part->send(tensor, 0, Flow::gradients).wait();
  sim.part->send(tensor, 0, Flow::activations).wait();
  sim.part->receive(tensor, 0, Flow::gradients).wait();
  sim.part->send(tensor, 1, Flow::gradients).wait();
  sim.part->barrier();
  sim.world->barrier();
  EXPECT_THAT(sequences(sim.record), ElementsAre(3, 1, 0, 0, 0, 4, 0));
}

TEST(RecordedOperation, MessagesOfAGroupCountAsThoseBesideThem) {
  Sim sim(false);
  const Recording recording(*sim.device, sim.record);
  sim.part->send(sim.tensor(), 0, Flow::activations).wait();
  for (int round = 0; round < 2; ++round) {
    CommGroup messages(*sim.part);
    messages.send(sim.tensor(), 0, Flow::activations);
    messages.receive(sim.tensor(), 1, Flow::activations);
    messages.start().wait();
  }
  EXPECT_THAT(sequences(sim.record), ElementsAre(0, 1, 0, 2, 1));
  std::vector<int64_t> groups;
  for (const CollectiveRecord& entry : sim.record.collectives())
    groups.push_back(entry.message_group);
  EXPECT_THAT(groups, ElementsAre(-1, 0, 0, 1, 1));
}

TEST(RecordedOperation, SaysWhetherTheHostWaited) {
  for (const bool side_streams : {false, true}) {
    Sim sim(side_streams);
    const Recording recording(*sim.device, sim.record);
    const Tensor tensor = sim.tensor();
    sim.part->all_reduce(tensor, ReduceOp::sum).wait();
    sim.part->all_reduce(tensor, ReduceOp::sum).wait_host();
    EXPECT_EQ(sim.record.collectives()[0].blocks_host, !side_streams);
    EXPECT_TRUE(sim.record.collectives()[1].blocks_host);
  }
}

TEST(RecordedOperation, WaitedForAfterTheRecordForgotItLeavesOthersAlone) {
  Sim sim(false);
  const Recording recording(*sim.device, sim.record);
  const Tensor tensor = sim.tensor();
  CommHandle old = sim.part->all_reduce(tensor, ReduceOp::sum);
  sim.record.drop_finished();
  CommHandle fresh = sim.part->all_reduce(tensor, ReduceOp::sum);
  old.wait();
  ASSERT_EQ(sim.record.collectives().size(), 1u);
  EXPECT_EQ(sim.record.collectives()[0].completed_at, -1);
  fresh.wait();
  EXPECT_GE(sim.record.collectives()[0].completed_at, 0);
}

TEST(RecordedHostCall, IsAnEventWhenPostedAndWhenWaitedFor) {
  Sim sim(false);
  sim.part->host().sum(1);
  const Recording recording(*sim.device, sim.record);
  const HostFigure figure{2};
  PendingFigures pending = sim.part->host().post({&figure, 1});
  sim.world->host().first_text("a text");
  EXPECT_EQ(pending.wait().at(0).sum, 2);
  ASSERT_EQ(sim.record.host_calls().size(), 2u);
  const HostCallRecord &posted = sim.record.host_calls()[0], &text = sim.record.host_calls()[1];
  EXPECT_EQ(posted.what, "figures");
  EXPECT_EQ(posted.group, "odd");
  EXPECT_EQ(posted.members->text(), "1 + 2·[0, 4)");
  EXPECT_EQ(posted.place, 2);
  EXPECT_EQ(posted.sequence, 1) << "one came before the record";
  EXPECT_EQ(text.what, "first text");
  EXPECT_EQ(text.group, "world");
  EXPECT_EQ(text.sequence, 0);
  EXPECT_EQ(text.bytes, 14) << "the rank's number and six letters";
  EXPECT_LT(posted.posted_at, text.posted_at);
  EXPECT_LT(text.posted_at, text.wait_at);
  EXPECT_LT(text.wait_at, posted.wait_at);
  EXPECT_EQ(posted.wait_at, sim.record.position() - 1);
}

TEST(RecordedHostRead, KnowsHowFarComputeHasToBe) {
  Sim sim(true);
  const Recording recording(*sim.device, sim.record);
  const Tensor value = sim.tensor();
  sim.device->launched(kComputeStream);
  sim.device->launched(kComputeStream);
  const RecordScope scope(&sim.record, ScopeKind::phase, "optimizer");
  host_read(*sim.device, value, "loss", 0);
  ASSERT_EQ(sim.record.host_reads().size(), 1u);
  EXPECT_EQ(sim.record.host_reads()[0].stream_position, 2);
  EXPECT_EQ(sim.record.host_reads()[0].scope, 0);
}

}  // namespace
}  // namespace viaduct
