// Dropped units that are recomputed: each rule of the saved store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/batch.h"
#include "nn/context.h"
#include "nn/saved.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
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

Tensor numbers(std::vector<double> list) {
  const Tensor tensor = host_tensor(DType::f64, {static_cast<int64_t>(list.size())});
  std::copy(list.begin(), list.end(), tensor.data<double>());
  return tensor;
}

/// y = 2 x; keeps x + 1 as "inner", and their sum as a statistic.
struct Doubler {
  std::string_view name = unit::mlp;
  mutable int runs = 0;

  Tensor compute(const Tensor& x, SavedStore& saved) const {
    ++runs;
    const Tensor y = host_tensor(DType::f64, x.shape()), inner = host_tensor(DType::f64, x.shape());
    double sum = 0;
    for (int64_t i = 0; i < x.elements(); ++i) {
      y.data<double>()[i] = 2 * x.data<double>()[i];
      inner.data<double>()[i] = x.data<double>()[i] + 1;
      sum += inner.data<double>()[i];
    }
    saved.keep(this, "x", x);
    saved.keep(this, "inner", inner);
    saved.keep_statistic(this, "sum", numbers({sum}));
    return y;
  }
  Tensor forward(const Tensor& x, SavedStore& saved) const {
    const auto again = [](const Doubler& self, RankContext&, const Batch&, SavedStore& store,
                          const std::vector<Tensor>& inputs) {
      return std::vector{self.compute(inputs[0], store)};
    };
    ReplayableUnit scope(saved, name, {x}, {*this, again});
    const Tensor y = compute(x, saved);
    scope.made({y});
    return y;
  }
};

class SavedReplay : public testing::Test {
 protected:
  SavedReplay() {
    for (const std::string_view name : {unit::mlp, unit::mlp_norm})
      policy_.set(kBlock, name, UnitPolicy::recompute);
  }
  /// Runs f as the forward of the block's segment.
  template <class F>
  void forward(F&& f) {
    const SegmentScope scope(saved_, kSegment);
    f();
  }
  template <class F>
  void backward(F&& f) {
    const BackwardScope scope(saved_, kSegment, context_, batch_);
    f();
  }
  std::vector<double> take(const void* owner, const char* name) {
    return values(saved_.take(owner, name));
  }

  static constexpr int64_t kBlock = 3;
  static constexpr SegmentRun kSegment{.instance = 7, .block = kBlock};
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  OpTable ops_ = cpu_ops(test::instruction_set());
  NoWeights weights_;
  ParallelGroups groups_ = self_groups();
  LayerSettings settings_{.precision = precision_recipe("fp64")};
  RankContext context_{
      .ops = {*device_, ops_}, .weights = weights_, .groups = groups_, .settings = settings_};
  Batch batch_;
  SavedPolicy policy_;
  SavedStore saved_{true, &policy_};
  Doubler layer_;
  int reader_ = 0, other_ = 0;
};

TEST_F(SavedReplay, RunsAgainBeforeTheFirstReaderAndOnceForAll) {
  forward([&] {
    const Tensor y = layer_.forward(numbers({1, 2}), saved_);
    saved_.keep(&reader_, "y", y);
    EXPECT_EQ(y.storage().use_count(), 1) << "the store holds no output";
  });
  EXPECT_EQ(saved_.entries(), 4u) << "dropped values are still expected to be read";
  EXPECT_THAT(saved_.bytes_by_unit(), ElementsAre(Pair("mlp", 16 + 8))) << "x and the statistic";
  backward([&] {
    EXPECT_EQ(layer_.runs, 1);
    EXPECT_THAT(take(&layer_, "inner"), ElementsAre(2, 3));
    EXPECT_EQ(layer_.runs, 2);
    EXPECT_THAT(saved_.bytes_by_unit(), ElementsAre(Pair("", 16), Pair("mlp", 16 + 8)))
        << "restored, until it is taken";
    EXPECT_THAT(take(&reader_, "y"), ElementsAre(2, 4));
    EXPECT_THAT(take(&layer_, "sum"), ElementsAre(5));
    EXPECT_THAT(take(&layer_, "x"), ElementsAre(1, 2));
    EXPECT_EQ(layer_.runs, 2);
  });
  EXPECT_EQ(saved_.entries(), 0u);
  EXPECT_THAT(saved_.bytes_by_unit(), IsEmpty());
}

TEST_F(SavedReplay, KeptUnitsAndOtherBlocksRunOnce) {
  for (const SegmentRun& segment : {SegmentRun{0, kBlock + 1}, SegmentRun{1, -1}}) {
    {
      const SegmentScope scope(saved_, segment);
      layer_.forward(numbers({1, 2}), saved_);
    }
    const BackwardScope scope(saved_, segment, context_, batch_);
    EXPECT_THAT(take(&layer_, "inner"), ElementsAre(2, 3));
    take(&layer_, "x"), take(&layer_, "sum");
  }
  EXPECT_EQ(layer_.runs, 2);
}

TEST_F(SavedReplay, AViewOfADroppedOutputIsAViewOfWhatIsMadeAgain) {
  forward([&] {
    const Tensor y = layer_.forward(numbers({1, 2, 3, 4}), saved_);
    saved_.keep(&reader_, "part", y.slice(0, 1, 2));
    saved_.keep(&reader_, "square", y.view({2, 2}));
    // A column is a view that can only be described by its strides, so it is kept.
    saved_.keep(&other_, "column", y.view({2, 2}).slice(1, 0, 1));
  });
  backward([&] {
    const Tensor part = saved_.take(&reader_, "part"), square = saved_.take(&reader_, "square");
    EXPECT_THAT(values(part), ElementsAre(4, 6));
    EXPECT_EQ(square.shape(), Shape({2, 2}));
    EXPECT_EQ(part.storage(), square.storage());
    EXPECT_THAT(take(&other_, "column"), ElementsAre(2, 6));
    take(&layer_, "inner"), take(&layer_, "sum"), take(&layer_, "x");
  });
  EXPECT_EQ(layer_.runs, 2);
}

TEST_F(SavedReplay, AnotherTensorIsNotTakenForAnOutputThatIsGone) {
  forward([&] {
    layer_.forward(numbers({1, 2}), saved_);  // the output is freed
    for (int i = 0; i < 20; ++i) {
      const Tensor fresh = numbers({double(i), 0});
      saved_.keep(&reader_, "fresh" + std::to_string(i), fresh);
    }
  });
  backward([&] {
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(take(&reader_, ("fresh" + std::to_string(i)).c_str())[0], i);
  });
  EXPECT_EQ(layer_.runs, 1);
}

TEST_F(SavedReplay, AnOutputInAnInputsStorageIsThatInput) {
  const auto again = [](const Doubler&, RankContext&, const Batch&, SavedStore&,
                        const std::vector<Tensor>& inputs) { return inputs; };
  forward([&] {
    const Tensor x = numbers({5});
    ReplayableUnit scope(saved_, unit::mlp, {x}, {layer_, again});
    saved_.keep(&layer_, "x", x);
    scope.made({x});
    saved_.keep(&reader_, "y", x);
    EXPECT_EQ(x.storage().use_count(), 4) << "here, as the unit's input, and kept twice";
  });
  const SegmentScope no_backward(saved_, kSegment);  // nothing is recomputed
  EXPECT_THAT(take(&reader_, "y"), ElementsAre(5));
  EXPECT_THAT(take(&layer_, "x"), ElementsAre(5));
}

TEST_F(SavedReplay, AUnitOfDroppedInputsRunsTheirUnitFirst) {
  Doubler norm{.name = unit::mlp_norm};
  forward([&] {
    const Tensor normed = norm.forward(numbers({1}), saved_);
    saved_.keep(&reader_, "y", layer_.forward(normed, saved_));
    EXPECT_EQ(normed.storage().use_count(), 1) << "a dropped output is no input to hold";
  });
  EXPECT_THAT(saved_.bytes_by_unit(), ElementsAre(Pair("mlp", 8), Pair("mlp_norm", 8 + 8)));
  backward([&] {
    EXPECT_THAT(take(&reader_, "y"), ElementsAre(4));
    EXPECT_EQ(norm.runs, 2);
    EXPECT_EQ(layer_.runs, 2);
    EXPECT_THAT(take(&layer_, "x"), ElementsAre(2));
    for (const auto* owner : {&layer_, &norm}) take(owner, "inner"), take(owner, "sum");
    take(&norm, "x");
  });
  EXPECT_EQ(norm.runs, 2);
  EXPECT_EQ(saved_.entries(), 0u);
}

TEST_F(SavedReplay, UnitsInsideADroppedOneAreDroppedWithIt) {
  struct Outer {
    Doubler inner{.name = unit::mlp_norm};
    mutable int runs = 0;
    Tensor compute(const Tensor& x, SavedStore& saved) const {
      ++runs;
      return inner.forward(x, saved);
    }
  } outer;
  const auto again = [](const Outer& self, RankContext&, const Batch&, SavedStore& store,
                        const std::vector<Tensor>& inputs) {
    return std::vector{self.compute(inputs[0], store)};
  };
  forward([&] {
    const Tensor x = numbers({1});
    ReplayableUnit scope(saved_, unit::mlp, {x}, {outer, again});
    const Tensor y = outer.compute(x, saved_);
    scope.made({y});
    saved_.keep(&reader_, "y", y);
  });
  backward([&] {
    EXPECT_THAT(take(&outer.inner, "inner"), ElementsAre(2));
    EXPECT_EQ(outer.runs, 2);
    EXPECT_EQ(outer.inner.runs, 2);
    EXPECT_THAT(take(&reader_, "y"), ElementsAre(2));
    take(&outer.inner, "x"), take(&outer.inner, "sum");
  });
  EXPECT_EQ(outer.inner.runs, 2);
}

TEST_F(SavedReplay, ABackwardKeepsValues) {
  forward([&] { saved_.keep(&reader_, "y", layer_.forward(numbers({1}), saved_)); });
  backward([&] {
    const Tensor y = saved_.take(&reader_, "y");
    saved_.keep(&reader_, "y", y);
    EXPECT_EQ(saved_.get(&reader_, "y").raw(), y.raw());
    EXPECT_THAT(take(&reader_, "y"), ElementsAre(2));
    EXPECT_EQ(layer_.runs, 2);
  });
}

TEST_F(SavedReplay, BeforeAnInputIsTakenItsReadersRun) {
  forward([&] { saved_.keep(&reader_, "y", layer_.forward(numbers({1}), saved_)); });
  backward([&] {
    const Tensor x = saved_.take(&layer_, "x");
    EXPECT_EQ(layer_.runs, 2);
    x.data<double>()[0] = 99;  // that of the taker
    EXPECT_THAT(take(&reader_, "y"), ElementsAre(2));
    EXPECT_THAT(take(&layer_, "inner"), ElementsAre(2));
  });
}

TEST_F(SavedReplay, WritesToWhatIsKeptAreFoundWhereTheyAreLookedFor) {
  saved_.check_writes();
  Tensor x = numbers({1, 2, 3, 4, 5, 6}), column;
  forward([&] {
    saved_.keep(&reader_, "y", layer_.forward(x, saved_));
    column = x.view({3, 2}).slice(1, 1, 1);
    saved_.keep(&other_, "column", column);
  });
  backward([&] {
    x.data<double>()[0] = 9;  // not that of the column
    EXPECT_THAT(take(&other_, "column"), ElementsAre(2, 4, 6));
    EXPECT_THAT([&] { saved_.take(&layer_, "x"); },
                ThrowsMessage<ShapeError>(HasSubstr("\"x\" of unit \"mlp\" was written to")));
    EXPECT_THAT(values(saved_.get(&reader_, "y")), ElementsAre(18, 4, 6, 8, 10, 12));
    saved_.get(&layer_, "inner").data<double>()[1] = 9;
    EXPECT_THROW(saved_.take(&layer_, "inner"), ShapeError);
    EXPECT_THAT(take(&reader_, "y")[1], 4) << "read twice, never written";
  });
}

TEST_F(SavedReplay, NobodyRunsAUnitThatNobodyReads) {
  Doubler quiet;
  forward([&] {
    const Tensor x = numbers({1});
    const auto again = [](const Doubler&, RankContext&, const Batch&, SavedStore&,
                          const std::vector<Tensor>& inputs) {
      ADD_FAILURE() << "ran again";
      return inputs;
    };
    ReplayableUnit scope(saved_, unit::mlp, {x}, {quiet, again});
    scope.made({numbers({2})});
    saved_.keep(&reader_, "x", x);
  });
  EXPECT_THAT(saved_.bytes_by_unit(), ElementsAre(Pair("mlp", 8)));
  backward([&] { EXPECT_THAT(take(&reader_, "x"), ElementsAre(1)); });
}

/// A replay that captures something of a forward would read it when it is gone.
template <class Again>
constexpr bool kReplays = std::constructible_from<Replay, const Doubler&, Again>;

TEST_F(SavedReplay, FunctionsOfTheirLayerAlone) {
  const auto of = [](auto again) { return kReplays<decltype(again)>; };
  const int here = 1;
  EXPECT_TRUE(of([](const Doubler&, RankContext&, const Batch&, SavedStore&,
                    const std::vector<Tensor>& inputs) { return inputs; }));
  EXPECT_FALSE(of([here](const Doubler&, RankContext&, const Batch&, SavedStore&,
                         const std::vector<Tensor>&) { return std::vector<Tensor>(here); }));
}

TEST_F(SavedReplay, EffectsComeOnce) {
  int effects = 0;
  struct Counting {
    int* effects;
    Tensor compute(SavedStore& saved) const {
      saved.once([&] { ++*effects; });
      return numbers({1});
    }
  } counting{&effects};
  const auto again = [](const Counting& self, RankContext&, const Batch&, SavedStore& store,
                        const std::vector<Tensor>&) { return std::vector{self.compute(store)}; };
  forward([&] {
    ReplayableUnit scope(saved_, unit::mlp, {}, {counting, again});
    const Tensor y = counting.compute(saved_);
    scope.made({y});
    saved_.keep(&reader_, "y", y);
  });
  backward([&] { take(&reader_, "y"); });
  {
    const LayerReplayScope layer(saved_, kSegment);
    counting.compute(saved_);
  }
  EXPECT_EQ(effects, 1);
}

TEST_F(SavedReplay, TagsSayWhatBecomesOfATensor) {
  const auto expect = [&](MemoryTag tag, MemoryTag statistic, MemoryTag output) {
    EXPECT_EQ(saved_.tag(), tag);
    EXPECT_EQ(saved_.statistic_tag(), statistic);
    EXPECT_EQ(saved_.output_tag(), output);
  };
  const MemoryTag kept = MemoryTag::saved, gone = MemoryTag::activations;
  forward([&] {
    expect(kept, kept, kept);
    ReplayableUnit scope(saved_, unit::mlp, {}, {});
    expect(gone, kept, kept);
  });
  {
    const SegmentScope inside(saved_, {.drops = true, .drops_output = true});
    expect(gone, gone, gone);
    EXPECT_FALSE(saved_.keeps());
  }
  {
    const SegmentScope last(saved_, {.drops = true});
    expect(gone, gone, kept);
  }
  const LayerReplayScope replay(saved_, {.block = kBlock, .drops = true, .drops_output = true});
  const ReplayableUnit scope(saved_, unit::mlp, {}, {});
  expect(kept, kept, kept);
  EXPECT_TRUE(saved_.keeps());
}

TEST_F(SavedReplay, ASegmentThatDropsKeepsNothingUntilItsLayerRunsAgain) {
  SegmentRun drops = kSegment;
  drops.drops = true;
  {
    const SegmentScope scope(saved_, drops);
    layer_.forward(numbers({1}), saved_);
  }
  EXPECT_EQ(saved_.entries(), 0u);
  {
    const LayerReplayScope scope(saved_, drops);
    layer_.forward(numbers({1}), saved_);
  }
  EXPECT_EQ(saved_.entries(), 3u) << "units are kept, whatever their policy";
  const BackwardScope scope(saved_, drops, context_, batch_);
  EXPECT_THAT(take(&layer_, "inner"), ElementsAre(2));
  EXPECT_EQ(layer_.runs, 2);
}

TEST_F(SavedReplay, OnlyAWalkBackwardsRunsAgain) {
  forward([&] {
    saved_.keep(&reader_, "y", layer_.forward(numbers({1}), saved_));
    EXPECT_THAT([&] { saved_.get(&reader_, "y"); },
                ThrowsMessage<ShapeError>(AllOf(HasSubstr("unit mlp of block 3"),
                                                HasSubstr("outside of a backward walk"))));
  });
}

TEST_F(SavedReplay, AUnitThatIsNotTheSameTheSecondTimeIsAnError) {
  static int kept = 0;
  const auto forgets = [](const int&, RankContext&, const Batch&, SavedStore&,
                          const std::vector<Tensor>&) { return std::vector{numbers({1})}; };
  forward([&] {
    ReplayableUnit scope(saved_, unit::mlp, {}, {kept, forgets});
    saved_.keep(&kept, "inner", numbers({1}));
    scope.made({numbers({1})});
  });
  backward([&] {
    EXPECT_THAT([&] { saved_.get(&kept, "inner"); },
                ThrowsMessage<ShapeError>(HasSubstr("did not keep \"inner\"")));
  });
  SavedStore other(true, &policy_);
  {
    const SegmentScope scope(other, kSegment);
    ReplayableUnit unit(other, unit::mlp, {}, {kept, forgets});
    const Tensor one = numbers({1}), two = numbers({2});
    unit.made({one, two});
    other.keep(&kept, "two", two);
  }
  const BackwardScope scope(other, kSegment, context_, batch_);
  EXPECT_THAT([&] { other.get(&kept, "two"); },
              ThrowsMessage<ShapeError>(HasSubstr("returned 1 outputs, 2 before")));
}

TEST(SavedPolicy, NamesUnitsAndGroups) {
  SavedPolicy policy;
  EXPECT_TRUE(policy.keeps_everything());
  EXPECT_THAT([&] { policy.set(0, "moe", UnitPolicy::recompute); },
              ThrowsMessage<ShapeError>(
                  AllOf(HasSubstr("no unit moe"), HasSubstr("attn_norm, qkv_linear, core_attn, "
                                                            "attn_proj, mlp_norm, mlp"))));
  policy.set(1, unit::mlp, UnitPolicy::recompute);
  EXPECT_EQ(policy.of(1, unit::mlp), UnitPolicy::recompute);
  EXPECT_EQ(policy.of(0, unit::mlp), UnitPolicy::keep);
  policy.set(1, unit::mlp, UnitPolicy::keep);
  EXPECT_TRUE(policy.keeps_everything());
  policy.recompute_layers({2, 2});
  EXPECT_EQ(policy.group_of(1), nullptr);
  EXPECT_EQ(policy.group_of(3)->first_block, 2);
  EXPECT_THAT(
      [&] {
        policy.recompute_layers({3, 1});
      },
      ThrowsMessage<ShapeError>(HasSubstr("block 3 is in two groups")));
  EXPECT_THROW(policy.recompute_layers({7, 0}), ShapeError);
  policy.recompute_layers({7, 1, true});
  EXPECT_TRUE(policy.group_of(7)->apart);
  EXPECT_THROW(policy.recompute_layers({8, 2, true}), ShapeError);
  EXPECT_FALSE(policy.offloads());
  policy.set(7, unit::layer, UnitPolicy::offload);
  EXPECT_TRUE(policy.offloads());
}

}  // namespace
}  // namespace viaduct
