// Offloaded units: each rule of the saved store for them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "nn/batch.h"
#include "nn/context.h"
#include "nn/saved.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/later_memory.h"
#include "support/no_weights.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::NoWeights;
using test::values;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;

/// Counts the calls of a memory that copies at once.
class NotedMemory final : public SecondMemory {
 public:
  Id put(const Tensor& value) override {
    log.push_back("put");
    const Tensor copy = host_tensor(DType::u8, value.shape());
    std::memcpy(copy.raw(), value.raw(), static_cast<size_t>(value.bytes()));
    copies.push_back(copy);
    return static_cast<Id>(copies.size()) - 1;
  }
  void finish_put(Id) override { log.push_back("finish_put"); }
  void fetch(Id id, const Tensor& value) override {
    log.push_back("fetch");
    std::memcpy(value.raw(), copies[static_cast<size_t>(id)].raw(),
                static_cast<size_t>(value.bytes()));
  }
  void take(Id) override { log.push_back("take"); }
  void finish_fetch(Id) override { log.push_back("finish_fetch"); }
  void put_again(Id, const Tensor&) override { log.push_back("put_again"); }
  void drop(Id) noexcept override { log.push_back("drop"); }

  std::vector<std::string> log;
  std::vector<Tensor> copies;
};

class SavedOffload : public testing::Test {
 protected:
  SavedOffload() {
    policy_.set(kBlock, unit::mlp, UnitPolicy::offload);
    policy_.set(kBlock, unit::mlp_norm, UnitPolicy::offload);
    policy_.set(kBlock, unit::core_attn, UnitPolicy::recompute);
    store_.emplace(true, &policy_, &memory_);
  }
  /// [count] numbers from 1, in device memory.
  Tensor numbers(int64_t count) {
    const Tensor tensor = device_->allocate(DType::f32, {count}, MemoryTag::saved);
    std::iota(tensor.data<float>(), tensor.data<float>() + count, 1.0f);
    return tensor;
  }
  template <class F>
  void forward(F&& f) {
    const SegmentScope scope(*store_, kSegment);
    f();
  }
  /// Runs f in the unit.
  template <class F>
  void forward(std::string_view unit, F&& f) {
    forward([&] {
      const UnitScope scope(*store_, unit);
      f();
    });
  }
  void leave() {
    store_->start_offload(kSegment.instance);
    store_->finish_offload();
  }
  template <class F>
  void backward(F&& f) {
    const BackwardScope scope(*store_, kSegment, context_, batch_);
    f();
  }
  int64_t in_use() const { return device_->memory().bytes_in_use; }

  static constexpr int64_t kBlock = 3;
  static constexpr SegmentRun kSegment{.instance = 7, .block = kBlock};
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  OpTable ops_ = cpu_ops(test::instruction_set());
  NoWeights weights_;
  ParallelGroups groups_ = self_groups();
  LayerSettings settings_{.precision = precision_recipe("fp32")};
  RankContext context_{
      .ops = {*device_, ops_}, .weights = weights_, .groups = groups_, .settings = settings_};
  Batch batch_;
  SavedPolicy policy_;
  NotedMemory memory_;
  std::optional<SavedStore> store_;
  int owner_ = 0, other_ = 0;
};

TEST_F(SavedOffload, ItsMemoryIsGivenUpWhereTheProgramSaysSoAndComesBackAhead) {
  forward(unit::mlp, [&] { store_->keep(&owner_, "x", numbers(64)); });
  EXPECT_EQ(in_use(), 256);
  store_->start_offload(kSegment.instance);
  EXPECT_EQ(in_use(), 256) << "it is copied, and stays until the program frees it";
  EXPECT_THAT(store_->bytes_by_unit(), ElementsAre(Pair("mlp", 256)));
  store_->finish_offload();
  EXPECT_EQ(in_use(), 0);
  EXPECT_THAT(store_->bytes_by_unit(), IsEmpty());
  EXPECT_EQ(store_->entries(), 1u) << "not read yet";
  store_->fetch(kSegment.instance + 1, context_.ops);
  EXPECT_EQ(in_use(), 0) << "of another segment";
  store_->fetch(kSegment.instance, context_.ops);
  EXPECT_EQ(in_use(), 256);
  EXPECT_THAT(store_->bytes_by_unit(), ElementsAre(Pair("mlp", 256)));
  store_->fetch(kSegment.instance, context_.ops);
  backward([&] {
    const Tensor x = store_->take(&owner_, "x");
    EXPECT_THAT(values(x.slice(0, 0, 3)), ElementsAre(1, 2, 3));
    EXPECT_EQ(store_->entries(), 0u);
  });
  EXPECT_THAT(memory_.log, ElementsAre("put", "finish_put", "fetch", "take"));
  EXPECT_EQ(in_use(), 0);
}

TEST_F(SavedOffload, WhatNobodyFetchedAheadIsFetchedByItsReader) {
  forward(unit::mlp, [&] { store_->keep(&owner_, "x", numbers(3)); });
  leave();
  EXPECT_THAT([&] { store_->get(&owner_, "x"); },
              ThrowsMessage<ShapeError>(HasSubstr("\"x\" was not kept")))
      << "it is another segment's";
  forward([&] {
    EXPECT_THAT([&] { store_->get(&owner_, "x"); },
                ThrowsMessage<ShapeError>(AllOf(HasSubstr("\"x\" is in the second memory"),
                                                HasSubstr("outside of a backward walk"))));
  });
  backward([&] { EXPECT_THAT(values(store_->take(&owner_, "x")), ElementsAre(1, 2, 3)); });
}

TEST_F(SavedOffload, ViewsOfAStorageGoOnceAndComeBackTogether) {
  const auto rows = [](const Tensor& t) { return t.view({4, 6}); };
  forward(unit::mlp, [&] {
    const Tensor all = numbers(24);
    store_->keep(&owner_, "all", all);
    store_->keep(&owner_, "columns", rows(all).slice(1, 2, 3));
    store_->keep(&owner_, "heads", all.view({4, 3, 2}).slice(1, 1, 2).slice(0, 1, 3));
    const UnitScope norm(*store_, unit::mlp_norm);
    store_->keep(&other_, "part", all.slice(0, 20, 4));
  });
  leave();
  EXPECT_EQ(memory_.copies.size(), 1u);
  EXPECT_EQ(in_use(), 0);
  backward([&] {
    const Tensor columns = store_->take(&owner_, "columns");
    EXPECT_EQ(columns.stride(0), 6);
    EXPECT_THAT(values(columns.slice(0, 3, 1)), ElementsAre(21, 22, 23));
    const Tensor heads = store_->take(&owner_, "heads");
    EXPECT_THAT(values(heads.select(0)), ElementsAre(9, 10, 11, 12));
    EXPECT_THAT(values(store_->take(&other_, "part")), ElementsAre(21, 22, 23, 24));
    EXPECT_EQ(store_->get(&owner_, "all").storage(), columns.storage());
    EXPECT_EQ(in_use(), 96) << "one storage";
    store_->take(&owner_, "all");
  });
}

TEST_F(SavedOffload, WhatAKeptUnitSeesOrAReplayNeedsStays) {
  Tensor input;
  forward([&] {
    const Tensor shared = numbers(8), gone = numbers(4);
    input = numbers(2);
    {
      const UnitScope scope(*store_, unit::mlp);
      store_->keep(&owner_, "shared", shared);
      store_->keep(&owner_, "gone", gone);
      store_->keep(&owner_, "input", input);
    }
    const UnitScope kept(*store_, unit::attn_proj);
    store_->keep(&other_, "shared", shared);
    static const int layer = 0;
    const auto again = [](const int&, RankContext&, const Batch&, SavedStore&,
                          const std::vector<Tensor>& inputs) { return std::vector{inputs[0]}; };
    ReplayableUnit unit(*store_, unit::core_attn, {input}, {layer, again});
    const Tensor out = numbers(16);
    unit.made({out});
    store_->keep(&other_, "out", out);
  });
  leave();
  EXPECT_EQ(memory_.copies.size(), 1u);
  EXPECT_EQ(memory_.copies[0].bytes(), 16) << "of offloaded values";
  backward([&] {
    EXPECT_EQ(store_->take(&other_, "out").storage(), input.storage()) << "by its replay";
    for (const char* name : {"shared", "gone", "input"}) store_->take(&owner_, name);
    store_->take(&other_, "shared");
  });
  EXPECT_EQ(store_->entries(), 0u);
}

TEST_F(SavedOffload, StatisticsOtherBlocksAndWhatABackwardKeepsStay) {
  forward(unit::mlp, [&] { store_->keep_statistic(&owner_, "rstd", numbers(2)); });
  {
    const SegmentScope scope(*store_, {.instance = 8, .block = kBlock + 1});
    const UnitScope unit(*store_, unit::mlp);
    store_->keep(&owner_, "x", numbers(3));
  }
  backward([&] {
    const UnitScope unit(*store_, unit::mlp);
    store_->keep(&other_, "dy", numbers(5));
  });
  leave();
  store_->start_offload(8);
  EXPECT_THAT(memory_.log, IsEmpty());
}

// A column of columns: its strides are not those of a slice of a contiguous tensor.
TEST_F(SavedOffload, AViewThatCannotBeDescribedStays) {
  forward(unit::mlp, [&] {
    store_->keep(&owner_, "x", numbers(24).view({4, 6}).transposed(0, 1));
  });
  leave();
  EXPECT_THAT(memory_.log, IsEmpty());
  backward([&] { EXPECT_EQ(store_->take(&owner_, "x").stride(1), 6); });
}

TEST_F(SavedOffload, WritesToWhatIsAwayAreSeenAndAStoreThatEndsForgetsItsCopies) {
  store_->check_writes();
  forward(unit::mlp, [&] {
    store_->keep(&owner_, "x", numbers(3));
    store_->keep(&owner_, "y", numbers(3));
  });
  leave();
  memory_.copies[0].data<uint8_t>()[0] ^= 1;
  backward([&] {
    EXPECT_THAT([&] { store_->take(&owner_, "x"); },
                ThrowsMessage<ShapeError>(HasSubstr("was written to while it was kept")));
  });
  memory_.log.clear();
  store_.reset();
  EXPECT_THAT(memory_.log, ElementsAre("drop"));
}

// The limit counts elements, not bytes, and all elements of a storage that is seen twice.
TEST_F(SavedOffload, SmallerTensorsThanThePolicySaysStay) {
  policy_.offload_from(64);
  forward(unit::mlp, [&] {
    store_->keep(&owner_, "small", numbers(63));
    store_->keep(&owner_, "large", numbers(64));
    const Tensor whole = numbers(80);
    store_->keep(&owner_, "part", whole.slice(0, 0, 40));
    store_->keep(&owner_, "rest", whole.slice(0, 40, 40));
  });
  leave();
  EXPECT_THAT(memory_.log, ElementsAre("put", "put", "finish_put", "finish_put"));
  EXPECT_EQ(in_use(), 63 * 4);
  backward([&] {
    for (const char* name : {"small", "large", "part", "rest"}) store_->take(&owner_, name);
  });
}

TEST_F(SavedOffload, WithoutASecondMemoryIsAnError) {
  EXPECT_THAT([&] { SavedStore(true, &policy_); },
              ThrowsMessage<ShapeError>(HasSubstr("there is no second memory")));
  EXPECT_NO_THROW(SavedStore(false, &policy_)) << "evaluation keeps nothing";
}

TEST(SavedPolicy, KnowsWhetherAnythingIsOffloaded) {
  SavedPolicy policy;
  policy.set(1, unit::mlp, UnitPolicy::recompute);
  EXPECT_FALSE(policy.offloads());
  policy.set(1, unit::mlp, UnitPolicy::offload);
  EXPECT_TRUE(policy.offloads());
  EXPECT_EQ(policy.of(1, unit::mlp), UnitPolicy::offload);
  EXPECT_EQ(policy.of(1, unit::core_attn), UnitPolicy::keep);
  policy.set(1, unit::mlp, UnitPolicy::keep);
  EXPECT_FALSE(policy.offloads());
  EXPECT_TRUE(policy.keeps_everything());
}

// The tests' memory copies late, but not always at the last moment.
TEST(LaterMemory, CopiesWhenItLikesAndWhenItMust) {
  test::LaterMemory memory(3);
  const Tensor from = host_tensor(DType::f32, {2}), to = host_tensor(DType::f32, {2});
  for (int i = 0; i < 40; ++i) {
    from.data<float>()[0] = static_cast<float>(i);
    const auto id = memory.put(from);
    EXPECT_EQ(memory.bytes(), 8);
    memory.finish_put(id);
    memory.fetch(id, to);
    EXPECT_TRUE(std::isnan(to.data<float>()[0]));
    memory.take(id);
    EXPECT_EQ(to.data<float>()[0], static_cast<float>(i));
  }
  EXPECT_EQ(memory.bytes(), 0);
  EXPECT_GT(memory.early_copies(), 5);
  EXPECT_LT(memory.early_copies(), memory.copies());
}

}  // namespace
}  // namespace viaduct
