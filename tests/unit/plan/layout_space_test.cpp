// The layouts that the search considers.

#include "plan/layout_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "plan/contradictions.h"

namespace viaduct {
namespace {

SpaceLimits limits() {
  SpaceLimits l;
  l.ranks = 64, l.global_batch = 128, l.length = 8192;
  l.layers = 32, l.heads = 32, l.feed_forward = 14336, l.domain = 8;
  return l;
}

template <class Predicate>
bool some(const std::vector<Layout>& layouts, const Predicate& predicate) {
  return std::any_of(layouts.begin(), layouts.end(), predicate);
}

TEST(LayoutSpace, SizesMultiplyToTheRanksAndRowsToTheBatch) {
  const auto all = enumerate_layouts(limits());
  EXPECT_GT(all.size(), 1000u);
  for (const Layout& l : all) {
    EXPECT_EQ(l.tp * l.cp * l.pp * l.dp, 64);
    EXPECT_EQ(l.micro_batch * l.micro_batches * l.dp, 128);
    EXPECT_EQ(32 % (l.pp * l.vpp), 0);
    EXPECT_TRUE(l.vpp == 1 || l.micro_batches % l.pp == 0);
  }
}

TEST(LayoutSpace, EveryAxisIsSearched) {
  const auto all = enumerate_layouts(limits());
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.tp == 8; }));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.cp == 4; }));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.pp == 4 && l.vpp == 8; }));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.dp == 64; }));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.micro_batch == 2; }));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.recompute == Recompute::selective; }));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.sharding == Sharding::full; }));
}

TEST(LayoutSpace, TensorGroupsStayInsideADomain) {
  SpaceLimits l = limits();
  l.domain = 4;
  for (const Layout& layout : enumerate_layouts(l)) EXPECT_LE(layout.tp, 4);
  // In domains of 72 a group of 16 would span two.
  l.domain = 72;
  EXPECT_FALSE(some(enumerate_layouts(l), [](const Layout& x) { return x.tp > 8; }));
}

TEST(LayoutSpace, ExpertsAreSharedAndCutLikeDenseWeightsOrWhole) {
  SpaceLimits l = limits();
  EXPECT_FALSE(some(enumerate_layouts(l), [](const Layout& x) { return x.ep != 0; }));
  l.experts = 8, l.expert_feed_forward = 14336;
  const auto all = enumerate_layouts(l);
  for (const Layout& layout : all) {
    ASSERT_GT(layout.ep, 0);
    EXPECT_EQ(8 % layout.ep, 0);
    EXPECT_EQ(layout.tp * layout.cp * layout.dp % (layout.ep * layout.etp), 0);
    EXPECT_TRUE(layout.etp == 1 || layout.etp == layout.tp);
    EXPECT_TRUE(layout.sharding != Sharding::none || (layout.ep == 1 && layout.etp == layout.tp));
    EXPECT_EQ(layout.expert_shards() * layout.ep * layout.etp, layout.tp * layout.cp * layout.dp);
  }
  EXPECT_TRUE(some(all, [](const Layout& x) { return x.ep == 8 && x.etp == 1 && x.tp == 8; }));
  EXPECT_TRUE(some(all, [](const Layout& x) { return x.ep == 2 && x.etp == 4; }));
  l.ep = 4, l.etp = 2;
  for (const Layout& layout : enumerate_layouts(l)) EXPECT_EQ(layout.ep * layout.etp, 8);
}

TEST(LayoutSpace, ContextRanksKeepEnoughTokens) {
  for (const Layout& l : enumerate_layouts(limits())) EXPECT_GE(8192 / l.cp, kLeastContextTokens);
}

/// A vision tower of 6 blocks of 24 heads in front of 36 layers.
SpaceLimits with_tower() {
  SpaceLimits l = limits();
  l.ranks = 12, l.layers = 36, l.domain = 24, l.encoder_layers = 6, l.encoder_width = 24;
  return l;
}

TEST(LayoutSpace, AnEncoderHasStagesAndTensorRanksOfItsOwn) {
  const auto all = enumerate_layouts(with_tower());
  std::set<int> stages;
  for (const Layout& l : all) {
    stages.insert(l.encoder_stages);
    EXPECT_EQ(l.dp * l.cp * (l.encoder_tp * l.encoder_stages + l.tp * l.pp), 12);
    EXPECT_EQ(l.micro_batch * l.micro_batches * l.dp, 128);
    EXPECT_EQ(l.encoder_stages == 0, l.encoder_tp == 0);
    EXPECT_TRUE(l.encoder_tp == 0 || l.encoder_tp % l.tp == 0 || l.tp % l.encoder_tp == 0);
  }
  EXPECT_EQ(stages, (std::set{0, 1, 2, 3, 6}));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.encoder_tp > l.tp; }));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.encoder_tp > 0 && l.encoder_tp < l.tp; }));
  EXPECT_TRUE(some(all, [](const Layout& l) { return l.encoder_stages > 0 && l.vpp > 1; }));
  // One of an encoder-decoder model has those of the decoder.
  SpaceLimits t5 = with_tower();
  t5.encoder_width = 0;
  for (const Layout& l : enumerate_layouts(t5))
    EXPECT_EQ(l.encoder_tp, l.encoder_stages == 0 ? 0 : l.tp);
}

TEST(LayoutSpace, StagesOfAnEncoderMayBeFixed) {
  SpaceLimits l = with_tower();
  l.encoder_stages = 0;
  EXPECT_FALSE(some(enumerate_layouts(l), [](const Layout& x) { return x.encoder_stages > 0; }));
  l.encoder_stages = 2;
  const auto two = enumerate_layouts(l);
  EXPECT_FALSE(some(two, [](const Layout& x) { return x.encoder_stages != 2; }));
  EXPECT_TRUE(some(two, [](const Layout& x) { return x.encoder_tp == 4 && x.tp == 2; }));
  l.encoder_tp = 1;
  const auto narrow = enumerate_layouts(l);
  EXPECT_FALSE(narrow.empty());
  EXPECT_FALSE(some(narrow, [](const Layout& x) { return x.encoder_tp != 1; }));
  l.encoder_stages = 4;  // does not divide 6
  EXPECT_TRUE(enumerate_layouts(l).empty());
  EXPECT_THAT(contradicting_sizes(l),
              testing::ElementsAre("model.encoder_pipeline_model_parallel_size=4"));
}

TEST(LayoutSpace, FixedValuesReplaceTheRules) {
  SpaceLimits l = limits();
  l.tp = 16, l.cp = 1, l.pp = 2, l.vpp = 1, l.micro_batch = 2;
  l.given_recompute = l.given_sharding = true;
  const auto all = enumerate_layouts(l);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(describe(all[0]),
            "tp 16 · cp 1 · pp 2 · vpp 1 · dp 2, micro-batch 2 × 32, sharding as given, recompute "
            "as given");
  // A field that keeps its given value is not an override.
  EXPECT_THAT(overrides_of(all[0]),
              testing::Not(testing::Contains(testing::HasSubstr("recompute"))));
}

TEST(LayoutSpace, NothingDivides) {
  SpaceLimits l = limits();
  l.tp = 3;
  EXPECT_TRUE(enumerate_layouts(l).empty());
}

TEST(LayoutSpace, LayersCountWithTheEndsThatAreAccountedFor) {
  SpaceLimits l = limits();
  l.layers = 126, l.cp = 1, l.tp = 1, l.pp = 16;
  const auto uneven = [&] {
    std::set<int> layers, chunks;
    for (const Layout& layout : enumerate_layouts(l))
      layers.insert(layout.uneven_layers), chunks.insert(layout.vpp);
    return std::pair(layers, chunks);
  };
  EXPECT_EQ(uneven(), std::pair(std::set{126}, std::set{1, 2, 4}));
  l.account_for_embedding = l.account_for_loss = true;
  EXPECT_EQ(uneven(), std::pair(std::set{0}, std::set{1, 2, 4, 8}));
}

// A chunk has a layer at least.
TEST(LayoutSpace, FewLayersHaveFewStages) {
  SpaceLimits l = limits();
  l.layers = 21, l.cp = 1, l.tp = 1, l.pp = 16;
  EXPECT_TRUE(enumerate_layouts(l).empty());
  l.pp = 8;
  EXPECT_FALSE(enumerate_layouts(l).empty());
  l.prediction_layers = 1;
  EXPECT_FALSE(enumerate_layouts(l).empty());
  l.layers = 20;
  EXPECT_TRUE(enumerate_layouts(l).empty());
}

TEST(Layout, DifferencesAreNamed) {
  Layout a, b;
  b.pp = 4, b.recompute = Recompute::full;
  EXPECT_THAT(differences(a, b), testing::ElementsAre("pp 1 → 4", "recompute none → full"));
  EXPECT_TRUE(differences(a, a).empty());
}

TEST(Layout, HasTheFieldsOfAnEncoderWhereThereIsOne) {
  Layout a{.tp = 4, .has_encoder = true, .encoder_stages = 2, .encoder_tp = 1}, b = a;
  EXPECT_THAT(overrides_of(a),
              testing::IsSupersetOf({"model.encoder_pipeline_model_parallel_size=2",
                                     "model.encoder_tensor_model_parallel_size=1"}));
  EXPECT_THAT(overrides_of(Layout{}),
              testing::Not(testing::Contains(testing::HasSubstr("encoder"))));
  b.encoder_stages = 3, b.encoder_tp = 2;
  EXPECT_THAT(differences(a, b), testing::ElementsAre("encoder pp 2 → 3", "encoder tp 1 → 2"));
  b.encoder_stages = b.encoder_tp = 0;
  EXPECT_THAT(differences(a, b), testing::ElementsAre("encoder pp 2 → 0"));
  EXPECT_THAT(overrides_of(b), testing::Contains("model.encoder_pipeline_model_parallel_size=0"));
  EXPECT_EQ(a.ranks(), 2 * 1 + 4);
}

TEST(Contradictions, NameWhatExcludesWhat) {
  using testing::ElementsAre;
  SpaceLimits l = limits();
  l.tp = 3;
  EXPECT_THAT(contradicting_sizes(l),
              ElementsAre("model.tensor_model_parallel_size=3", "--ranks 64"));
  l.tp = 8, l.pp = 16, l.cp = 1;
  EXPECT_THAT(contradicting_sizes(l),
              ElementsAre("model.tensor_model_parallel_size=8",
                          "model.pipeline_model_parallel_size=16", "--ranks 64"));
  l = limits(), l.ranks = 7, l.global_batch = 8;
  EXPECT_THAT(contradicting_sizes(l), ElementsAre("--global-batch 8", "--ranks 7"));
  l = limits(), l.micro_batch = 3;
  EXPECT_THAT(contradicting_sizes(l),
              ElementsAre("train.micro_batch_size=3", "--global-batch 128"));
  l = limits(), l.experts = 8, l.ep = 3;
  EXPECT_THAT(no_layout_text(l),
              testing::HasSubstr("model.expert_model_parallel_size=3 does not go with this model; "
                                 "nearest: 2 or 4"));
  l = limits(), l.encoder_layers = 4, l.encoder_stages = 9;
  EXPECT_THAT(no_layout_text(l),
              testing::HasSubstr("model.encoder_pipeline_model_parallel_size=9 does not go with "
                                 "this model; nearest: 4"));
  l = limits(), l.experts = 8, l.ep = 3;
  // Of two contradictions only the second is named: what the first needs is free by then.
  l.tp = 3;
  EXPECT_THAT(contradicting_sizes(l), ElementsAre("model.expert_model_parallel_size=3"));
  l = limits(), l.pp = 4, l.vpp = 4, l.global_batch = 8, l.micro_batch = 1, l.tp = 1, l.cp = 1;
  EXPECT_THAT(no_layout_text(l), testing::AllOf(testing::HasSubstr("no layout divides 64 ranks"),
                                                testing::HasSubstr(" exclude each other ")));
}

}  // namespace
}  // namespace viaduct
