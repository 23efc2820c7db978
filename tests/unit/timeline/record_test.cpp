// A record: scopes nest, allocations know their owner, and forgetting keeps allocations that are
// still held.

#include "timeline/record.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

TEST(Record, ScopesNestAndOwn) {
  StepRecord record;
  {
    const RecordScope step(&record, ScopeKind::step, "step 3");
    record.allocate(1, 10, "saved");
    const RecordScope phase(&record, ScopeKind::phase, "forward", {}, 2, 1);
    {
      const RecordScope segment(&record, ScopeKind::segment, "blocks.1", "mlp");
      record.allocate(2, 20, "activations");
      record.op({});
    }
    record.launch({});
  }
  ASSERT_EQ(record.scopes().size(), 3u);
  EXPECT_EQ(record.scope_path(record.allocations()[0].scope), "step 3");
  EXPECT_EQ(record.scope_path(record.allocations()[1].scope), "step 3/forward/blocks.1.mlp");
  EXPECT_EQ(record.ops()[0].scope, 2);
  EXPECT_EQ(record.collectives()[0].scope, 1);
  EXPECT_EQ(record.scopes()[1].micro_batch, 2);
  EXPECT_EQ(record.scopes()[1].chunk, 1);
  for (size_t i = 1; i < 3; ++i) {
    const ScopeRecord &inner = record.scopes()[i], &outer = record.scopes()[i - 1];
    EXPECT_GT(inner.begin_at, outer.begin_at);
    EXPECT_LT(inner.end_at, outer.end_at);
    EXPECT_GE(inner.begin_seconds, outer.begin_seconds);
    EXPECT_LE(inner.end_seconds, outer.end_seconds);
  }
}

TEST(Record, GivesUpAtADeadline) {
  StepRecord record;
  record.give_up_at(Deadline::at(1, [] { return 2.0; }));
  EXPECT_THROW(record.op({}), DeadlineError);
  EXPECT_THROW(record.allocate(1, 10, "saved"), DeadlineError);
  EXPECT_TRUE(record.ops().empty() && record.allocations().empty());
  record.give_up_at({});
  EXPECT_NO_THROW(record.op({}));
}

TEST(Record, ASegmentNamedAsItsLayerIsNamedOnce) {
  StepRecord record;
  { const RecordScope scope(&record, ScopeKind::segment, "head", "head"); }
  EXPECT_EQ(record.scopes()[0].name, "head");
}

TEST(Record, AScopeWithoutOneLeavesTheOthersAsTheyAre) {
  StepRecord record;
  {
    const RecordScope phase(&record, ScopeKind::phase, "forward");
    const int64_t position = record.position();
    {
      const RecordScope nowhere(nullptr, ScopeKind::segment, "blocks.1", "mlp", 3, 1);
      EXPECT_EQ(record.position(), position) << "no event";
      record.op({});
    }
    EXPECT_EQ(record.position(), position + 1) << "the op alone";
    record.op({});
  }
  ASSERT_EQ(record.scopes().size(), 1u);
  for (const OpEntryRecord& op : record.ops()) EXPECT_EQ(op.scope, 0) << "still in forward";
  EXPECT_EQ(record.scopes()[0].end_at, record.position() - 1) << "closed by its own scope";
}

TEST(Record, ForgettingKeepsWhatIsHeldWithItsOwner) {
  StepRecord record;
  {
    const RecordScope other(&record, ScopeKind::phase, "other");
    record.allocate(1, 10, "workspace");
  }
  {
    const RecordScope setup(&record, ScopeKind::phase, "setup");
    const RecordScope inner(&record, ScopeKind::segment, "buffers");
    record.allocate(2, 20, "weights");
    record.allocate(3, 30, "workspace");
    record.op({});
  }
  record.release(1, 10, "workspace");
  record.release(3, 30, "workspace");
  record.drop_finished();
  ASSERT_EQ(record.allocations().size(), 1u);
  EXPECT_EQ(record.allocations()[0].bytes, 20);
  EXPECT_EQ(record.scope_path(record.allocations()[0].scope), "setup/buffers");
  EXPECT_EQ(record.scopes().size(), 2u);
  EXPECT_TRUE(record.ops().empty());
  record.release(2, 20, "weights");
  EXPECT_GE(record.allocations()[0].released_at, 0) << "still found after it moved";
  EXPECT_TRUE(record.older_releases().empty());
}

TEST(Record, ReleasesOfWhatItDoesNotKnow) {
  StepRecord record;
  record.release(77, 40, "weights");
  ASSERT_EQ(record.older_releases().size(), 1u);
  EXPECT_EQ(record.older_releases()[0].bytes, 40);
  EXPECT_EQ(record.older_releases()[0].tag, "weights");
}

}  // namespace
}  // namespace viaduct
