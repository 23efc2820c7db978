// Streams wait for each other through events, also through a third stream; memory used by a side
// stream is held until compute is ordered after it; the record has the edges.

#include "device/stream_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "device/recording.h"

namespace viaduct {
namespace {

Tensor watched(bool& gone) {
  static char memory[4];
  auto storage = std::make_shared<Storage>(memory, 4, [&gone](Storage&) { gone = true; });
  return {std::move(storage), DType::f32, {1}};
}

TEST(StreamOrder, AStreamIsBehindWhatItWaitedFor) {
  StreamOrder order;
  const int a = order.stream("a"), b = order.stream("b");
  EXPECT_EQ(order.stream("compute"), kComputeStream);
  EXPECT_EQ(order.stream("a"), a);
  order.launched(a);
  const Event early = order.event(a);
  order.launched(a);
  const Event late = order.event(a);
  EXPECT_FALSE(order.is_behind(b, early));
  EXPECT_TRUE(order.is_behind(a, late));
  order.waited(b, early);
  EXPECT_TRUE(order.is_behind(b, early));
  EXPECT_FALSE(order.is_behind(b, late));
  // An event implies everything that its stream had waited for when it was recorded, and nothing
  // more.
  const Event of_b = order.event(b);
  order.waited(b, late);
  order.waited(kComputeStream, of_b);
  EXPECT_TRUE(order.is_behind(kComputeStream, early));
  EXPECT_FALSE(order.is_behind(kComputeStream, late));
}

TEST(StreamOrder, TensorsAreHeldUntilComputeComesAfterTheirUse) {
  StreamOrder order;
  const int a = order.stream("a"), b = order.stream("b");
  bool first_gone = false, second_gone = false;
  order.launched(a);
  order.hold(a, watched(first_gone));
  const Event first = order.event(a);
  order.launched(a);
  order.hold(a, watched(second_gone));
  order.waited(b, order.event(a));
  EXPECT_FALSE(first_gone) << "another side stream waits, compute does not";
  order.waited(kComputeStream, first);
  EXPECT_TRUE(first_gone);
  EXPECT_FALSE(second_gone);
  order.launched(b);
  order.waited(kComputeStream, order.event(b));  // which had waited for a
  EXPECT_TRUE(second_gone);
}

TEST(DeviceStreams, WithoutSideStreamsAllAreCompute) {
  const auto device = make_cpu_device(1);
  StepRecord record;
  const Recording recording(*device, record);
  EXPECT_EQ(device->stream("tp"), kComputeStream);
  device->wait(kComputeStream, device->record_event(device->stream("tp")));
  EXPECT_TRUE(record.edges().empty());
}

TEST(DeviceStreams, TheRecordHasTheEdgesAndEachOnce) {
  const auto device = make_sim_device(true);
  StepRecord record;
  const Recording recording(*device, record);
  const int side = device->stream("side");
  EXPECT_EQ(device->stream_name(side), "side");
  device->launched(kComputeStream);
  const Event event = device->record_event(kComputeStream);
  device->wait(side, event);
  device->wait(side, event);
  ASSERT_EQ(record.edges().size(), 1u);
  const StreamEdgeRecord& edge = record.edges()[0];
  EXPECT_EQ(edge.from_stream, kComputeStream);
  EXPECT_EQ(edge.from_position, 1);
  EXPECT_EQ(edge.to_stream, side);
  EXPECT_EQ(edge.to_position, 1);
  record.drop_finished();
  EXPECT_TRUE(record.edges().empty());
}

}  // namespace
}  // namespace viaduct
