// Routing and orders of rows on the emulator, for sizes that take several blocks, rounds of a block
// and digits of the sort: op_machine.cpp compares each launch with the cpu's where bits are equal.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct::test {
namespace {

class ExpertSteps : public ::testing::Test {
 protected:
  OpMachine machine_{
      CpuIsa::portable, 1, {cpu::add_routing, cpu::add_expert_rows, cpu::add_router_extras}};
  OpContext context_ = machine_.context();
};

/// Choices among `experts`, some of them dropped.
Tensor some_choices(int64_t tokens, int64_t k, int64_t experts) {
  std::vector<int64_t> choices;
  for (int64_t i = 0; i < tokens * k; ++i) choices.push_back(i % 11 == 3 ? -1 : i * i % experts);
  return integers(DType::i32, choices).view({tokens, k});
}

TEST_F(ExpertSteps, SortingTakesSeveralBlocksAndDigits) {
  constexpr int64_t kTokens = 1500, kChosen = 3, kExperts = 288;
  for (const int64_t copies : {1, 2}) {
    for (const int64_t rows_each : {0, 40}) {
      const int64_t destinations = kExperts * copies, places = kTokens * kChosen * copies;
      const Tensor token =
          host_tensor(DType::i32, {rows_each > 0 ? destinations * rows_each : places});
      const Tensor position = host_tensor(DType::i32, {kTokens, kChosen * copies});
      const Tensor counts = host_tensor(DType::i64, {destinations}),
                   offsets = host_tensor(DType::i32, {destinations + 1});
      // At most 39 choices of an expert.
      std::vector<int64_t> choices;
      for (int64_t i = 0; i < kTokens * kChosen; ++i)
        choices.push_back(i % 5 == 3 ? -1 : i * 7 % kExperts);
      const Tensor choice = integers(DType::i32, choices).view({kTokens, kChosen});
      sort_by_expert(context_, {choice, 8, copies, token, position, counts, offsets, rows_each});
      for (int64_t i = 0; i < position.elements(); ++i) {
        const auto row = static_cast<int64_t>(element(position, i));
        if (choices[static_cast<size_t>(i / copies)] < 0) {
          EXPECT_EQ(row, -1);
        } else {
          EXPECT_EQ(element(token, row), static_cast<double>(i / copies / kChosen)) << i;
        }
      }
    }
  }
}

TEST_F(ExpertSteps, ArrivalsOfManySenders) {
  const int64_t senders = 21, experts = 17;
  std::vector<int64_t> rows;
  int64_t all = 0;
  for (int64_t i = 0; i < senders * experts; ++i) rows.push_back(i * 5 % 7), all += rows.back();
  const Tensor from = host_tensor(DType::i32, {all}), back = host_tensor(DType::i32, {all});
  const Tensor offsets = host_tensor(DType::i32, {experts + 1});
  arrival_order(context_,
                {integers(DType::i64, rows).view({senders, experts}), from, back, offsets});
  EXPECT_EQ(element(offsets, experts), static_cast<double>(all));
  for (int64_t i = 0; i < all; ++i)
    EXPECT_EQ(element(back, static_cast<int64_t>(element(from, i))), static_cast<double>(i));
}

TEST_F(ExpertSteps, LimitsWithManyEqualProbabilities) {
  constexpr int64_t kTokens = 1100, kChosen = 2, kExperts = 3;
  for (const DropPolicy policy : {DropPolicy::probabilities, DropPolicy::position}) {
    for (const int64_t capacity : {1, 300, 700, 2000}) {
      const Tensor p = random_tensor(DType::f32, {kTokens, kChosen}, 1);
      for (int64_t i = 0; i < p.elements(); ++i)
        set_element(p, i,
                    i % 97 == 5 ? std::numeric_limits<double>::quiet_NaN()
                                : std::nearbyint(element(p, i) * 4) / 4);
      std::vector<int64_t> choices;
      for (int64_t i = 0; i < kTokens * kChosen; ++i) choices.push_back(i * i % 7 % kExperts);
      const Tensor choice = integers(DType::i32, choices).view({kTokens, kChosen});
      limit_experts(context_, {choice, p, kExperts, capacity, policy});
      std::vector<int64_t> kept(kExperts);
      for (const double e : values(choice))
        if (e >= 0) ++kept[static_cast<size_t>(e)];
      for (int64_t e = 0; e < kExperts; ++e) {
        const auto chosen = std::count(choices.begin(), choices.end(), e);
        EXPECT_EQ(kept[static_cast<size_t>(e)], std::min<int64_t>(capacity, chosen)) << e;
      }
    }
  }
}

/// Choices of a run lie in the order of tokens, whatever its experts: the first tokens keep theirs.
TEST_F(ExpertSteps, LimitsOfManyExpertsTogether) {
  constexpr int64_t kTokens = 1300, kChosen = 3, kExperts = 96, kTogether = 32;
  for (const DropPolicy policy : {DropPolicy::probabilities, DropPolicy::position}) {
    for (const int64_t capacity : {1, 600, 1500}) {
      const Tensor p = random_tensor(DType::f32, {kTokens, kChosen}, 1);
      for (int64_t i = 0; i < p.elements(); ++i)
        set_element(p, i, std::nearbyint(element(p, i) * 4) / 4);
      const Tensor choice = some_choices(kTokens, kChosen, kExperts);
      const std::vector<double> before = values(choice);
      limit_experts(context_, {choice, p, kExperts, capacity, policy, kTogether});
      std::vector<int64_t> chosen(kExperts / kTogether), kept(kExperts / kTogether);
      for (int64_t i = 0; i < choice.elements(); ++i) {
        const double expert = before[static_cast<size_t>(i)];
        if (expert < 0) continue;
        const auto run = static_cast<size_t>(expert) / kTogether;
        ++chosen[run];
        if (element(choice, i) >= 0) ++kept[run];
        if (policy == DropPolicy::position) {
          EXPECT_EQ(element(choice, i) >= 0, chosen[run] <= capacity) << i;
        }
      }
      for (size_t run = 0; run < kept.size(); ++run)
        EXPECT_EQ(kept[run], std::min<int64_t>(capacity, chosen[run])) << run;
    }
  }
}

TEST_F(ExpertSteps, RoutingAmongManyExpertsAndGroups) {
  constexpr int64_t kTokens = 9, kExperts = 320;
  RoutingRule many, groups, all_groups, likely, near;
  near.topk = 40, near.margin = 0.8;
  likely.topk = 12, likely.choose_probabilities = true;
  many.topk = kMostChosenExperts;
  groups.topk = 8, groups.groups = 40, groups.group_topk = 5, groups.group_best = 3;
  groups.score = ScoreFunction::sigmoid;
  all_groups.topk = 6, all_groups.groups = 160, all_groups.group_topk = 64;
  all_groups.pre_softmax = true;
  const Tensor logits = random_tensor(DType::f32, {kTokens, kExperts}, 3, 4);
  for (const RoutingRule& rule : {many, groups, all_groups, likely, near}) {
    // Far more than the probabilities of most experts.
    const Tensor bias =
        rule.choose_probabilities ? random_tensor(DType::f32, {kExperts}, 7, 0.2) : Tensor();
    const Tensor p = host_tensor(DType::f32, {kTokens, rule.topk}),
                 choice = host_tensor(DType::i32, {kTokens, rule.topk});
    const Tensor exact = host_tensor(DType::f64, p.shape()),
                 expected = host_tensor(DType::i32, p.shape());
    route(context_, {rule, logits, bias, p, choice});
    reference::route({rule, to_f64(logits), bias ? to_f64(bias) : Tensor(), exact, expected});
    expect_same_bits(choice, expected);
    for (int64_t i = 0; i < p.elements(); ++i)
      EXPECT_NEAR(element(p, i), element(exact, i), 1e-6) << i;
    const Tensor d = random_tensor(DType::f32, p.shape(), 5),
                 out = host_tensor(DType::f32, logits.shape());
    const Tensor d_exact = host_tensor(DType::f64, logits.shape());
    route_backward(context_, {rule, d, logits, choice, out, {}});
    reference::route_backward({rule, to_f64(d), to_f64(logits), choice, d_exact, {}});
    for (int64_t i = 0; i < out.elements(); ++i)
      EXPECT_NEAR(element(out, i), element(d_exact, i), 1e-5) << i;
  }
}

TEST_F(ExpertSteps, CountsOfDocumentsAreAdded) {
  const Tensor choice = some_choices(700, 2, 5), counts = host_tensor(DType::i64, {3, 5});
  const Tensor documents = integers(DType::i32, {100, 250, 600, 800});
  for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate})
    count_choices(context_, {choice, counts, documents, 100, mode});
  double all = 0, chosen = 0;
  for (const double n : values(counts)) all += n;
  for (const double e : values(choice)) chosen += e >= 0 ? 1 : 0;
  EXPECT_EQ(all, 2 * chosen);
}

}  // namespace
}  // namespace viaduct::test
