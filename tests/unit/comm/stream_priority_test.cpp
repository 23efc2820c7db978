// dist.high_priority_stream_groups: which streams it chooses by name.

#include "comm/stream_priority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

DistConfig groups(std::vector<std::string> names) {
  DistConfig config;
  config.high_priority_stream_groups = std::move(names);
  return config;
}

TEST(StreamPriority, IsEverywhereUnlessGroupsAreNamed) {
  EXPECT_FALSE(stream_priority(DistConfig())) << "no choice is made";
  const auto none = stream_priority(groups({}));
  for (const char* stream : {"tp", "dp_cp", "pp.to.1.activations", "documents.2"})
    EXPECT_FALSE(none(stream)) << stream;
  for (const char* stream : {"offload", "fetch", "gradient sums"})
    EXPECT_TRUE(none(stream)) << stream << " communicates nothing";
}

TEST(StreamPriority, HasANamedGroupWithItsQueuesAndParts) {
  const auto chosen = stream_priority(groups({"pp", "dp_cp"}));
  for (const char* stream : {"pp.to.1.activations", "pp.from.0.gradients", "dp_cp", "dp_cp.inner"})
    EXPECT_TRUE(chosen(stream)) << stream;
  for (const char* stream : {"dp", "tp", "cp", "cp.outer.group.activations", "expert_tp_ep_pp"})
    EXPECT_FALSE(chosen(stream)) << stream;
}

TEST(StreamPriority, KnowsMegatronsNames) {
  const auto data = stream_priority(groups({"intra_dp_cp"}));
  EXPECT_TRUE(data("dp_cp.inner"));
  EXPECT_FALSE(data("dp_cp"));
  const auto tokens = stream_priority(groups({"ep"}));
  for (const char* stream : {"ep", "expert_tp_ep", "expert_tp_ep.inner", "ep.outer"})
    EXPECT_TRUE(tokens(stream)) << stream;
  for (const char* stream : {"expert_tp", "expert_tp_ep_pp", "expert_dp", "tp"})
    EXPECT_FALSE(tokens(stream)) << stream;
}

TEST(StreamPriority, UnknownGroupsAreRefusedWithTheNearest) {
  EXPECT_THAT(
      [] {
        stream_priority(groups({"tp", "dp_pc"}));
      },
      ThrowsMessage<ConfigError>(
          AllOf(HasSubstr("dist.high_priority_stream_groups: there is no group \"dp_pc\""),
                HasSubstr("did you mean dp_cp?"))));
  EXPECT_THAT([] { stream_priority(groups({"everything"})); },
              ThrowsMessage<ConfigError>(HasSubstr("expected a name like dp_cp, tp or ep")));
}

}  // namespace
}  // namespace viaduct
