// The choice of experts, its weights and their gradients, compared with the FP64 reference; the
// reference compared with finite differences; and rules by hand (ties, groups, bias, NaN).

#include "ops/routing.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::element;
using test::integers;
using test::OpMachine;
using test::random_tensor;
using test::set_values;
using test::to_f64;
using test::values;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kTokens = 70, kExperts = 12;

std::vector<RoutingRule> rules() {
  RoutingRule pre, one, sigmoid, sigmoid_one, groups, softplus, plain, best_group, likely,
      likely_pre, near;
  pre.pre_softmax = true, pre.topk = 3, pre.scaling = 2.5;
  one.pre_softmax = true, one.topk = 1;
  sigmoid.score = ScoreFunction::sigmoid, sigmoid.topk = 4, sigmoid.scaling = 1.5;
  sigmoid_one.score = ScoreFunction::sigmoid, sigmoid_one.topk = 1;
  groups = sigmoid, groups.groups = 4, groups.group_topk = 2;
  softplus = sigmoid, softplus.score = ScoreFunction::sqrt_softplus;
  plain = sigmoid, plain.normalize = false;
  best_group = pre, best_group.groups = 6, best_group.group_topk = 2, best_group.group_best = 1;
  likely.choose_probabilities = true, likely.topk = 3;
  likely_pre = pre, likely_pre.choose_probabilities = true;
  near.margin = 0.9, near.topk = 3, near.scaling = 1.5;
  return {{},       pre,   one,        sigmoid, sigmoid_one, groups,
          softplus, plain, best_group, likely,  likely_pre,  near};
}

struct Routed {
  Tensor probabilities, choice;
};

Routed reference_route(const RoutingRule& rule, const Tensor& logits, const Tensor& bias = {}) {
  Routed out{host_tensor(DType::f64, {logits.dim(0), rule.topk}),
             host_tensor(DType::i32, {logits.dim(0), rule.topk})};
  reference::route({rule, logits, bias, out.probabilities, out.choice});
  return out;
}

/// One tolerance for all: sums of a few terms of size 1.
void expect_near(const Tensor& actual, const Tensor& expected, double bound = 1e-5) {
  ASSERT_EQ(actual.shape(), expected.shape());
  for (int64_t i = 0; i < actual.elements(); ++i)
    EXPECT_NEAR(element(actual, i), element(expected, i), bound) << i;
}

class RoutingTest : public testing::TestWithParam<size_t> {
 protected:
  void expect_finite_differences(const RouterLossTerms& losses);

  RoutingRule rule_ = rules()[GetParam()];
  OpMachine machine_{test::testable_isas().back(), 3, {cpu::add_routing}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Rules, RoutingTest, testing::Range<size_t>(0, rules().size()));

TEST_P(RoutingTest, MatchesTheReference) {
  const Tensor logits = random_tensor(DType::f32, {kTokens, kExperts}, 1, 3);
  const Tensor bias = random_tensor(DType::f32, {kExperts}, 2, 0.3);
  for (const Tensor& with : {Tensor(), bias}) {
    const Routed expected = reference_route(rule_, to_f64(logits), to_f64(with));
    const Routed actual{host_tensor(DType::f32, {kTokens, rule_.topk}),
                        host_tensor(DType::i32, {kTokens, rule_.topk})};
    route(context_, {rule_, logits, with, actual.probabilities, actual.choice});
    EXPECT_EQ(values(actual.choice), values(expected.choice));
    expect_near(actual.probabilities, expected.probabilities);
  }
}

/// Terms of all losses, with different counts.
RouterLossTerms some_losses() {
  RouterLossTerms losses;
  losses.balance = 0.4, losses.z = 0.1, losses.tokens = 50;
  std::vector<int64_t> counts;
  for (int64_t e = 0; e < kExperts; ++e) counts.push_back(3 + e * e % 7);
  losses.counts = integers(DType::i64, counts);
  losses.loss_scale = host_tensor(DType::f64, {1});
  *losses.loss_scale.data<double>() = 4;
  return losses;
}

/// The same with a loss for each document: tokens 2, 3 … of documents of 4, 60 and 100 tokens.
RouterLossTerms document_losses() {
  RouterLossTerms losses = some_losses();
  losses.documents = integers(DType::i32, {0, 4, 64, 164});
  losses.first_token = 2;
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < 3 * kExperts; ++i) counts.push_back(1 + i * i % 5);
  losses.counts = integers(DType::i64, counts).view({3, kExperts});
  return losses;
}

TEST_P(RoutingTest, BackwardMatchesTheReferenceAlsoInPlace) {
  const Tensor logits = random_tensor(DType::f32, {kTokens, kExperts}, 1, 3);
  const Tensor d = random_tensor(DType::f32, {kTokens, rule_.topk}, 2);
  const Routed routed = reference_route(rule_, to_f64(logits));
  for (const RouterLossTerms& losses : {RouterLossTerms(), some_losses(), document_losses()}) {
    const Tensor expected = host_tensor(DType::f64, logits.shape());
    reference::route_backward({rule_, to_f64(d), to_f64(logits), routed.choice, expected, losses});
    const Tensor actual = test::converted(logits, DType::f32);
    route_backward(context_, {rule_, d, actual, routed.choice, actual, losses});
    expect_near(actual, expected, 3e-5);
  }
}

TEST_P(RoutingTest, ReferenceBackwardEqualsFiniteDifferencesOfProbabilitiesAndLosses) {
  for (const RouterLossTerms& losses : {some_losses(), document_losses()})
    expect_finite_differences(losses);
}

void RoutingTest::expect_finite_differences(const RouterLossTerms& losses) {
  const Tensor logits = random_tensor(DType::f64, {5, kExperts}, 1, 2);
  const Tensor d = random_tensor(DType::f64, {5, rule_.topk}, 2);
  const Routed routed = reference_route(rule_, logits);
  const auto value = [&] {  // Σ d · p + the losses, for a fixed choice
    const Routed now = reference_route(rule_, logits);
    EXPECT_EQ(values(now.choice), values(routed.choice));
    const Tensor sums = host_tensor(DType::f64, {3});
    reference::router_loss(
        {rule_, logits, losses.tokens, losses.counts, sums, losses.documents, losses.first_token});
    double sum = 4 * (losses.balance * element(sums, 0) + losses.z * element(sums, 1));
    for (int64_t i = 0; i < d.elements(); ++i) sum += element(d, i) * element(now.probabilities, i);
    return sum;
  };
  const Tensor gradient = host_tensor(DType::f64, logits.shape());
  reference::route_backward({rule_, d, logits, routed.choice, gradient, losses});
  for (int64_t i = 0; i < logits.elements(); ++i) {
    const double here = element(logits, i), step = 1e-6;
    test::set_element(logits, i, here + step);
    const double above = value();
    test::set_element(logits, i, here - step);
    const double below = value();
    test::set_element(logits, i, here);
    EXPECT_NEAR(element(gradient, i), (above - below) / (2 * step), 1e-7) << i;
  }
}

TEST_P(RoutingTest, LossesMatchTheReferenceForAnyNumberOfThreads) {
  const Tensor logits = random_tensor(DType::f32, {3000, kExperts}, 1, 3);
  RouterLossTerms losses = some_losses();
  const Tensor expected = host_tensor(DType::f64, {3});
  reference::router_loss({rule_, to_f64(logits), losses.tokens, losses.counts, expected});
  std::vector<std::vector<double>> found;
  for (const int threads : {1, 3}) {
    OpMachine machine(test::testable_isas().back(), threads, {cpu::add_routing});
    OpContext context = machine.context();
    const Tensor actual = host_tensor(DType::f64, {3});
    router_loss(context, {rule_, logits, losses.tokens, losses.counts, actual});
    found.push_back(values(actual));
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_NEAR(element(actual, i), element(expected, i), 1e-5 * element(expected, i));
  }
  EXPECT_EQ(found[0], found[1]);
}

/// Index of tokens, of which some are padding.
Tensor with_padding(int64_t tokens) {
  std::vector<int64_t> index;
  for (int64_t t = 0; t < tokens; ++t) index.push_back(t % 7 == 3 || t == tokens - 1 ? -1 : 40 + t);
  return integers(DType::i64, index);
}

// What comes of the tokens without padding alone, at their places.
TEST_P(RoutingTest, PaddingHasNoLossesAndIsNotCounted) {
  const Tensor index = with_padding(kTokens);
  const Tensor logits = random_tensor(DType::f32, {kTokens, kExperts}, 1, 3);
  const Tensor d = random_tensor(DType::f32, {kTokens, rule_.topk}, 2);
  const Routed routed = reference_route(rule_, to_f64(logits));
  for (RouterLossTerms losses : {some_losses(), document_losses()}) {
    const Tensor with = host_tensor(DType::f64, logits.shape()),
                 without = host_tensor(DType::f64, logits.shape()),
                 expected = host_tensor(DType::f64, logits.shape());
    const Tensor d64 = to_f64(d), logits64 = to_f64(logits);
    reference::route_backward({rule_, d64, logits64, routed.choice, with, losses});
    reference::route_backward({rule_, d64, logits64, routed.choice, without, {}});
    losses.token_index = index;
    reference::route_backward({rule_, d64, logits64, routed.choice, expected, losses});
    for (int64_t i = 0; i < logits.elements(); ++i) {
      const Tensor& own = element(index, i / kExperts) < 0 ? without : with;
      EXPECT_EQ(element(expected, i), element(own, i)) << i;
    }
    const Tensor actual = test::converted(logits, DType::f32);
    route_backward(context_, {rule_, d, actual, routed.choice, actual, losses});
    expect_near(actual, expected, 3e-5);

    // Sums and counts: those of the other tokens, one by one.
    const Tensor sums = host_tensor(DType::f64, {3}), some = host_tensor(DType::f64, {3}),
                 counts = host_tensor(DType::i64, {kExperts});
    std::vector<double> counted(static_cast<size_t>(kExperts));
    for (int64_t t = 0; t < kTokens; ++t) {
      if (element(index, t) < 0) continue;
      reference::router_loss({rule_, logits64.slice(0, t, 1), losses.tokens, losses.counts, some,
                              losses.documents, losses.first_token + t});
      for (int64_t j = 0; j < rule_.topk; ++j)
        ++counted[static_cast<size_t>(element(routed.choice, t * rule_.topk + j))];
    }
    router_loss(context_, {rule_, logits, losses.tokens, losses.counts, sums, losses.documents,
                           losses.first_token, index});
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_NEAR(element(sums, i), element(some, i), 1e-5 * element(some, i));
    count_choices(context_, {.choice = routed.choice, .counts = counts, .token_index = index});
    EXPECT_EQ(values(counts), counted);
  }
}

/// The choice for one token, on the cpu and by the reference.
std::vector<double> chosen(const RoutingRule& rule, const std::vector<double>& logits,
                           const std::vector<double>& bias = {}) {
  const auto experts = static_cast<int64_t>(logits.size());
  const Tensor in = host_tensor(DType::f32, {1, experts});
  set_values(in, logits);
  Tensor with;
  if (!bias.empty()) set_values(with = host_tensor(DType::f32, {experts}), bias);
  OpMachine machine(test::testable_isas().back(), 1, {cpu::add_routing});
  OpContext context = machine.context();
  const Tensor p = host_tensor(DType::f32, {1, rule.topk});
  const Tensor choice = host_tensor(DType::i32, {1, rule.topk});
  route(context, {rule, in, with, p, choice});
  EXPECT_EQ(values(choice), values(reference_route(rule, to_f64(in), to_f64(with)).choice));
  return values(choice);
}

TEST(Routing, OfEqualScoresTheFirstIsChosen) {
  EXPECT_THAT(chosen({}, {1, 2, 2, 2, 0}), ElementsAre(1, 2));
  EXPECT_THAT(chosen({}, {0, 0, 0, 0}), ElementsAre(0, 1));
}

TEST(Routing, TheBiasDecidesTheChoiceAndNotTheWeight) {
  RoutingRule rule;
  rule.score = ScoreFunction::sigmoid;
  EXPECT_THAT(chosen(rule, {3, 2, 1, 0}), ElementsAre(0, 1));
  EXPECT_THAT(chosen(rule, {3, 2, 1, 0}, {0, 0, 0, 1}), ElementsAre(3, 0));
  const Tensor logits = host_tensor(DType::f64, {1, 4}), bias = host_tensor(DType::f64, {4});
  set_values(logits, {3, 2, 1, 0}), set_values(bias, {0, 0, 0, 1});
  const Routed routed = reference_route(rule, logits, bias);
  const double a = 1 / (1 + std::exp(0.0)), b = 1 / (1 + std::exp(-3.0));
  EXPECT_NEAR(element(routed.probabilities, 0), a / (a + b), 1e-12);
}

TEST(Routing, ABiasOfASoftmaxIsComparedWithProbabilities) {
  // Probabilities 0.64, 0.24, 0.09, 0.03; by logits a bias of 0.3 would change nothing.
  RoutingRule rule;
  EXPECT_THAT(chosen(rule, {3, 2, 1, 0}, {0, 0, 0, 0.3}), ElementsAre(0, 1));
  rule.choose_probabilities = true;
  EXPECT_THAT(chosen(rule, {3, 2, 1, 0}), ElementsAre(0, 1));
  EXPECT_THAT(chosen(rule, {3, 2, 1, 0}, {0, 0, 0, 0.3}), ElementsAre(0, 3));
  EXPECT_THAT(chosen(rule, {3, 2, 1, 0}, {0, 0, 0, 0.7}), ElementsAre(3, 0));
  const Tensor logits = host_tensor(DType::f64, {1, 4}), bias = host_tensor(DType::f64, {4});
  set_values(logits, {3, 2, 1, 0}), set_values(bias, {0, 0, 0, 0.7});
  const Routed routed = reference_route(rule, logits, bias);
  EXPECT_NEAR(element(routed.probabilities, 0), 1 / (1 + std::exp(3.0)), 1e-12);
  // The chosen ones may be as unlikely as they like.
  set_values(logits, {300, 2, 1, 0}), set_values(bias, {0, 0, 1, 2});
  const Routed unlikely = reference_route(rule, logits, bias);
  EXPECT_THAT(values(unlikely.choice), ElementsAre(3, 0));
  EXPECT_NEAR(element(unlikely.probabilities, 1), 1, 1e-12);
  EXPECT_THAT(chosen(rule, {1, 2, std::nan(""), 0}, {0, 5, 0, 0}), ElementsAre(2, 1));
}

TEST(Routing, ExpertsComeFromTheBestGroupsAlone) {
  RoutingRule rule;
  rule.score = ScoreFunction::sigmoid, rule.topk = 2, rule.groups = 3, rule.group_topk = 1;
  // Expert 0 is the best, but the best two of the second group are better together.
  EXPECT_THAT(chosen(rule, {5, -5, 3, 3, 0, 0}), ElementsAre(2, 3));
}

TEST(Routing, AGroupCountsAsMuchAsItsBestScores) {
  RoutingRule rule;
  rule.score = ScoreFunction::sigmoid, rule.topk = 2, rule.groups = 3, rule.group_topk = 1;
  rule.group_best = 1;  // now the best expert's group is chosen
  EXPECT_THAT(chosen(rule, {5, -5, 3, 3, 0, 0}), ElementsAre(0, 1));
  RoutingRule softmax;
  softmax.pre_softmax = true, softmax.topk = 2, softmax.groups = 2, softmax.group_topk = 1;
  // Sums of logits are 3 and 4; sums of the softmax, which the first expert dominates, have the
  // other order.
  EXPECT_THAT(chosen(softmax, {5, -2, 2, 2}), ElementsAre(0, 1));
}

/// Of a choice's softmax those are part that the margin has near it and that were not chosen.
TEST(Routing, AChoiceIsComparedWithExpertsNearItAlone) {
  RoutingRule rule;
  rule.margin = 0.5;
  const Tensor logits = host_tensor(DType::f64, {1, 5});
  const auto weights = [&](const std::vector<double>& values_of_logits) {
    set_values(logits, values_of_logits);
    return values(reference_route(rule, logits).probabilities);
  };
  // 4: near are 4, 3 and 2 (half of it); then 3: near are 3, 2 and 1.9.
  const std::vector<double> near = weights({2, 4, 1.9, 3, -3.5});
  EXPECT_NEAR(near[0], 1 / (1 + std::exp(-1.0) + std::exp(-2.0)), 1e-12);
  EXPECT_NEAR(near[1], 1 / (1 + std::exp(-1.0) + std::exp(-1.1)), 1e-12);
  // Below 0 the other logit's size counts: −3 is 2/3 of its size away from −1, −1.5 a third.
  const std::vector<double> below = weights({-1, -1.5, -3, -90, -90});
  EXPECT_NEAR(below[0], 1 / (1 + std::exp(-0.5)), 1e-12);
  EXPECT_NEAR(below[1], 1 / (1 + std::exp(-1.5)), 1e-12);
  // Nothing is near: the weight is 1, and no gradient passes.
  EXPECT_THAT(weights({9, 1, 0.1, 0, 0}), ElementsAre(1, 1));
}

TEST(Routing, ADocumentCountsItsOwnChoices) {
  OpMachine machine(test::testable_isas().back(), 1, {cpu::add_routing});
  OpContext context = machine.context();
  const Tensor choice = integers(DType::i32, {0, 2, 1, -1, 2, 0}).view({3, 2});
  CountChoicesArgs args{choice, host_tensor(DType::i64, {3, 3}), integers(DType::i32, {0, 2, 6, 8}),
                        4, WriteMode::assign};
  for (int64_t i = 0; i < 9; ++i) test::set_element(args.counts, i, 7);
  count_choices(context, args);  // tokens 4, 5 and 6
  EXPECT_THAT(values(args.counts), ElementsAre(0, 0, 0, 1, 1, 1, 1, 0, 1));
  args.mode = WriteMode::accumulate;
  args.counts = args.counts.select(1), args.documents = Tensor();
  count_choices(context, args);
  EXPECT_THAT(values(args.counts), ElementsAre(3, 2, 3));
}

TEST(Routing, ANanReachesTheOutput) {
  OpMachine machine(test::testable_isas().back(), 1, {cpu::add_routing});
  OpContext context = machine.context();
  const Tensor logits = host_tensor(DType::f32, {1, 4});
  set_values(logits, {1, 2, std::numeric_limits<double>::quiet_NaN(), 0});
  const Tensor p = host_tensor(DType::f32, {1, 2}), choice = host_tensor(DType::i32, {1, 2});
  route(context, {{}, logits, {}, p, choice});
  EXPECT_TRUE(std::isnan(element(p, 0)));
  EXPECT_EQ(element(choice, 0), 2);
}

TEST(Routing, ChecksRefuseWhatTheContractDoesNotAllow) {
  OpMachine machine(test::testable_isas().back(), 1, {cpu::add_routing});
  OpContext context = machine.context();
  const auto run = [&](RoutingRule rule, int64_t columns, DType choice) {
    route(context, {rule,
                    random_tensor(DType::f32, {2, 4}, 1),
                    {},
                    host_tensor(DType::f32, {2, columns}),
                    host_tensor(choice, {2, rule.topk})});
  };
  RoutingRule five, groups;
  five.topk = 5;
  groups.groups = 3, groups.group_topk = 1;
  EXPECT_THAT([&] { run(five, 5, DType::i32); },
              ThrowsMessage<ShapeError>(HasSubstr("5 of 4 experts of a token")));
  EXPECT_THAT([&] { run(groups, 2, DType::i32); },
              ThrowsMessage<ShapeError>(HasSubstr("1 of 3 groups of 4 experts")));
  EXPECT_THAT([&] { run({}, 3, DType::i32); }, ThrowsMessage<ShapeError>(HasSubstr("[2, 2]")));
  EXPECT_THAT([&] { run({}, 2, DType::i64); }, ThrowsMessage<ShapeError>(HasSubstr("i32")));
  EXPECT_THAT(
      [&] {
        count_choices(context, {.choice = integers(DType::i32, {0, 1}).view({2, 1}),
                                .counts = host_tensor(DType::i64, {2}),
                                .token_index = integers(DType::i64, {0})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("token_index")));
}

}  // namespace
}  // namespace viaduct
