// On a device with side streams an operation runs in the stream of its queue: after the compute
// work at its launch and before the stream that waits for it. It holds its tensors until compute is
// ordered after it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/comm_group.h"
#include "comm/communicator.h"
#include "device/recording.h"

namespace viaduct {
namespace {

using testing::ElementsAre;

struct Sim {
  std::unique_ptr<Device> device = make_sim_device(true);
  StepRecord record;
  std::shared_ptr<Communicator> group = make_sim_communicator(0, 4, "pp");
  Sim() {
    device->set_record(&record);
    group->record_on(device.get());
  }
  ~Sim() { device->set_record(nullptr); }
  Tensor tensor() const { return device->allocate(DType::f32, {4}, MemoryTag::activations); }
  int64_t bytes() const { return device->memory().bytes_in_use; }
};

/// (from, to) of every edge, by name.
std::vector<std::string> edges(const Sim& sim) {
  std::vector<std::string> list;
  for (const StreamEdgeRecord& edge : sim.record.edges())
    list.push_back(sim.device->stream_name(edge.from_stream) + " > " +
                   sim.device->stream_name(edge.to_stream));
  return list;
}

TEST(QueuedOperation, IsBehindComputeAndBeforeWhoeverWaits) {
  Sim sim;
  const Tensor tensor = sim.tensor();
  sim.device->launched(kComputeStream);
  CommHandle handle = sim.group->all_reduce(tensor, ReduceOp::sum);
  EXPECT_THAT(edges(sim), ElementsAre("compute > pp"));
  EXPECT_EQ(sim.record.edges()[0].from_position, 1);
  const CollectiveRecord& entry = sim.record.collectives().at(0);
  EXPECT_EQ(entry.queue, "pp");
  EXPECT_EQ(sim.device->stream_name(entry.stream), "pp");
  EXPECT_EQ(entry.stream_position, 2);  // after its wait
  handle.wait();
  handle.wait();
  EXPECT_THAT(edges(sim), ElementsAre("compute > pp", "pp > compute"));
}

TEST(QueuedOperation, IsBehindTheSideStreamWhoseWorkItNeeds) {
  Sim sim;
  const int side = sim.device->stream("sums");
  sim.device->wait(side, sim.device->record_event(kComputeStream));
  sim.device->launched(side);
  const Tensor tensor = sim.tensor();
  sim.group->all_reduce(tensor, ReduceOp::sum, side).wait(side);
  EXPECT_THAT(edges(sim), ElementsAre("sums > pp", "pp > sums"));
}

TEST(QueuedOperation, ItsTensorsGoWhenComputeIsBehindIt) {
  Sim sim;
  const int side = sim.device->stream("side");
  CommHandle handle = sim.group->all_reduce(sim.tensor(), ReduceOp::sum);
  EXPECT_EQ(sim.bytes(), 16);
  sim.device->launched(side);
  handle.wait(side);
  EXPECT_EQ(sim.bytes(), 16) << "another side stream waited, compute did not";
  sim.device->wait(kComputeStream, sim.device->record_event(side));
  EXPECT_EQ(sim.bytes(), 0);
}

TEST(QueuedOperation, ADroppedHandleMakesComputeWait) {
  Sim sim;
  sim.device->launched(kComputeStream);
  { const CommHandle dropped = sim.group->all_reduce(sim.tensor(), ReduceOp::sum); }
  EXPECT_THAT(edges(sim), ElementsAre("compute > pp", "pp > compute"));
  EXPECT_EQ(sim.bytes(), 0);
}

TEST(CommQueue, FlowsAndDirectionsBetweenTwoRanksDoNotWaitForEachOther) {
  Sim sim;
  const Tensor tensor = sim.tensor();
  sim.group->send(tensor, 1, Flow::activations).wait();
  sim.group->send(tensor, 1, Flow::gradients).wait();
  sim.group->receive(tensor, 1, Flow::gradients).wait();
  sim.group->receive(tensor, 2, Flow::gradients).wait();
  sim.group->all_reduce(tensor, ReduceOp::sum).wait();
  std::vector<std::string> queues;
  for (const CollectiveRecord& entry : sim.record.collectives()) queues.push_back(entry.queue);
  EXPECT_THAT(queues, ElementsAre("pp.to.1.activations", "pp.to.1.gradients", "pp.from.1.gradients",
                                  "pp.from.2.gradients", "pp"));
}

TEST(CommGroup, ItsMessagesAreOnePieceOfWork) {
  Sim sim;
  CommGroup messages(*sim.group);
  messages.send(sim.tensor(), 1, Flow::gradients);
  messages.receive(sim.tensor(), 3, Flow::gradients);
  CommHandle handle = messages.start();
  EXPECT_EQ(sim.bytes(), 32);
  ASSERT_EQ(sim.record.collectives().size(), 2u);
  for (const CollectiveRecord& entry : sim.record.collectives()) {
    EXPECT_EQ(entry.queue, "pp.group.gradients");
    EXPECT_EQ(entry.stream_position, 1);
  }
  handle.wait();
  EXPECT_EQ(sim.bytes(), 0);
  for (const CollectiveRecord& entry : sim.record.collectives()) EXPECT_GE(entry.completed_at, 0);
  EXPECT_FALSE(CommGroup(*sim.group).start().pending());
}

}  // namespace
}  // namespace viaduct
