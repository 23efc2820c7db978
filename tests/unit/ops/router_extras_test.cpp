// Router features beside the choice of experts: the balancing bias, capacity, jitter and random
// scores. Checked by hand where a rule is the point, otherwise against the reference.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/expert_capacity.h"
#include "ops/load_bias.h"
#include "ops/random_rows.h"
#include "ops/reference/reference.h"
#include "ops/step_scalars.h"
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
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class RouterExtras : public testing::Test {
 protected:
  OpMachine machine_{test::testable_isas().back(), 3, {cpu::add_router_extras}};
  OpContext context_ = machine_.context();
};

TEST_F(RouterExtras, LoadErrorsAreWholeNumbersThatAddUp) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor out = host_tensor(dtype, {4});
    load_error(context_, {integers(DType::i64, {3, 0, 1, 2}), out, WriteMode::assign});
    EXPECT_THAT(values(out), ElementsAre(6, -6, -2, 2));
    load_error(context_, {integers(DType::i64, {0, 5, 1, 0}), out, WriteMode::accumulate});
    EXPECT_THAT(values(out), ElementsAre(0, 8, -4, -4));
    const Tensor exact = host_tensor(DType::f64, {4});
    set_values(exact, {6, -6, -2, 2});
    reference::load_error({integers(DType::i64, {0, 5, 1, 0}), exact, WriteMode::accumulate});
    EXPECT_EQ(values(out), values(exact));
  }
}

TEST_F(RouterExtras, TheBiasMovesAgainstTheSignOfTheErrorUnlessTheUpdateIsSkipped) {
  const Tensor scalars = host_tensor(DType::f64, {kStepScalars});
  set_values(scalars, std::vector<double>(kStepScalars, 0));
  const Tensor bias = host_tensor(DType::f32, {4}), error = host_tensor(DType::f32, {4});
  const Tensor weight = host_tensor(DType::bf16, {4});
  set_values(bias, {1, 1, 1, 1});
  set_values(error, {1000, -0.25, 0, std::nan("")});
  move_load_bias(context_, {bias, error, weight, scalars, 0.5});
  EXPECT_THAT(values(bias), ElementsAre(0.5, 1.5, 1, 1));
  EXPECT_EQ(values(weight), values(bias));
  const Tensor exact = host_tensor(DType::f64, {4});
  set_values(exact, {1, 1, 1, 1});
  reference::move_load_bias({exact, to_f64(error), {}, scalars, 0.5});
  EXPECT_EQ(values(exact), values(bias));
  *step_scalar(scalars, StepScalar::skip).data<double>() = 1;
  move_load_bias(context_, {bias, error, weight, scalars, 0.5});
  EXPECT_THAT(values(bias), ElementsAre(0.5, 1.5, 1, 1));
}

TEST_F(RouterExtras, ABiasThatIsSetTakesTheNewValuesUnlessTheUpdateIsSkipped) {
  const Tensor scalars = host_tensor(DType::f64, {kStepScalars});
  set_values(scalars, std::vector<double>(kStepScalars, 0));
  const Tensor bias = host_tensor(DType::f32, {3}), value = host_tensor(DType::f32, {3});
  const Tensor weight = host_tensor(DType::bf16, {3}), exact = host_tensor(DType::f64, {3});
  set_values(bias, {1, 1, 1});
  set_values(exact, {1, 1, 1});
  set_values(value, {-0.5, 0.25, std::nan("")});
  move_load_bias(context_, {bias, value, weight, scalars, 0.5, true});
  EXPECT_THAT(values(bias), ElementsAre(-0.5, 0.25, 1));
  EXPECT_EQ(values(weight), values(bias));
  reference::move_load_bias({exact, to_f64(value), {}, scalars, 0.5, true});
  EXPECT_EQ(values(exact), values(bias));
  *step_scalar(scalars, StepScalar::skip).data<double>() = 1;
  set_values(value, {8, 8, 8});
  move_load_bias(context_, {bias, value, weight, scalars, 0.5, true});
  EXPECT_THAT(values(bias), ElementsAre(-0.5, 0.25, 1));
}

LimitExpertsArgs full_expert(DropPolicy policy) {
  LimitExpertsArgs args{integers(DType::i32, {0, 1, 1, 0, 0, 2}).view({3, 2}),
                        host_tensor(DType::f32, {3, 2}), 3, 2, policy};
  set_values(args.probabilities, {0.25, 0.75, 0.5, 0.5, 0.375, 0.625});
  return args;
}

TEST_F(RouterExtras, AFullExpertKeepsTheMostProbableOrTheFirst) {
  LimitExpertsArgs args = full_expert(DropPolicy::probabilities);
  limit_experts(context_, args);
  EXPECT_THAT(values(args.choice), ElementsAre(-1, 1, 1, 0, 0, 2));
  EXPECT_THAT(values(args.probabilities), ElementsAre(0, 0.75, 0.5, 0.5, 0.375, 0.625));
  args = full_expert(DropPolicy::position);
  limit_experts(context_, args);
  EXPECT_THAT(values(args.choice), ElementsAre(0, 1, 1, 0, -1, 2));
  EXPECT_THAT(values(args.probabilities), ElementsAre(0.25, 0.75, 0.5, 0.5, 0, 0.625));
}

/// Experts 0 and 1 together, 2 and 3 together; both choices of token 1 are in the first run.
TEST_F(RouterExtras, ExpertsTogetherShareALimitInTheOrderOfTokens) {
  const auto limited = [&](DropPolicy policy) {
    LimitExpertsArgs args{integers(DType::i32, {1, 2, 0, 1, -1, 0, 3, 2}).view({4, 2}),
                          host_tensor(DType::f32, {4, 2}), 4, 2, policy};
    args.experts_together = 2;
    set_values(args.probabilities, {0.25, 0.75, 0.5, 0.5, 0, 0.5, 0.5, 0.5});
    limit_experts(context_, args);
    return std::pair(values(args.choice), values(args.probabilities));
  };
  auto [choice, p] = limited(DropPolicy::probabilities);
  EXPECT_THAT(choice, ElementsAre(-1, 2, 0, 1, -1, -1, 3, -1)) << "of equal ones the first";
  EXPECT_THAT(p, ElementsAre(0, 0.75, 0.5, 0.5, 0, 0, 0.5, 0));
  std::tie(choice, p) = limited(DropPolicy::position);
  EXPECT_THAT(choice, ElementsAre(1, 2, 0, -1, -1, -1, 3, -1))
      << "by tokens, not by experts; a choice that was dropped before has no place";
  EXPECT_THAT(p, ElementsAre(0.25, 0.75, 0.5, 0, 0, 0, 0.5, 0));
}

TEST_F(RouterExtras, LimitsMatchTheReference) {
  for (const DropPolicy policy : {DropPolicy::probabilities, DropPolicy::position}) {
    for (const int64_t capacity : {1, 5, 12, 1000}) {
      std::vector<int64_t> choice;
      for (int64_t i = 0; i < 120; ++i) choice.push_back(i * i % 7);
      LimitExpertsArgs args{integers(DType::i32, choice).view({60, 2}),
                            random_tensor(DType::f32, {60, 2}, 1), 7, capacity, policy};
      for (int64_t i = 0; i < 120; i += 3) test::set_element(args.probabilities, i, 0.5);  // ties
      LimitExpertsArgs exact = args;
      exact.choice = integers(DType::i32, choice).view({60, 2});
      exact.probabilities = to_f64(args.probabilities);
      limit_experts(context_, args);
      reference::limit_experts(exact);
      EXPECT_EQ(values(args.choice), values(exact.choice));
      EXPECT_EQ(values(args.probabilities), values(exact.probabilities));
    }
  }
}

/// Independent of the reference: the places of each run are taken one by one.
TEST_F(RouterExtras, LimitsOfExpertsTogetherMatchAPlainCount) {
  constexpr int64_t kChoices = 120, kExperts = 12;
  for (const int64_t together : {1, 2, 3, 4, 6, 12}) {
    for (const int64_t capacity : {1, 5, 17, 1000}) {
      std::vector<int64_t> choice, expected(kChoices, -1);
      for (int64_t i = 0; i < kChoices; ++i)
        choice.push_back(i % 13 == 4 ? -1 : (i * i + i / 7) % kExperts);
      const Tensor p = random_tensor(DType::f32, {60, 2}, 1);
      for (int64_t i = 0; i < kChoices; i += 3) test::set_element(p, i, 0.5);  // ties
      std::vector<int64_t> order(kChoices);
      std::iota(order.begin(), order.end(), 0);
      for (const DropPolicy policy : {DropPolicy::position, DropPolicy::probabilities}) {
        if (policy == DropPolicy::probabilities) {
          std::ranges::stable_sort(
              order, [&](int64_t a, int64_t b) { return element(p, a) > element(p, b); });
        }
        std::vector<int64_t> taken(kExperts, 0);
        std::ranges::fill(expected, -1);
        for (const int64_t i : order) {
          const int64_t expert = choice[static_cast<size_t>(i)];
          if (expert >= 0 && taken[static_cast<size_t>(expert / together)]++ < capacity)
            expected[static_cast<size_t>(i)] = expert;
        }
        const Tensor kept = integers(DType::i32, choice).view({60, 2});
        const Tensor kept_p = test::converted(p, DType::f32);
        limit_experts(context_, {kept, kept_p, kExperts, capacity, policy, together});
        for (int64_t i = 0; i < kChoices; ++i) {
          const bool stays = expected[static_cast<size_t>(i)] >= 0;
          const bool was = choice[static_cast<size_t>(i)] >= 0;
          EXPECT_EQ(element(kept, i), static_cast<double>(expected[static_cast<size_t>(i)])) << i;
          EXPECT_EQ(element(kept_p, i), stays || !was ? element(p, i) : 0) << i;
        }
        LimitExpertsArgs exact{integers(DType::i32, choice).view({60, 2}),
                               to_f64(p),
                               kExperts,
                               capacity,
                               policy,
                               together};
        reference::limit_experts(exact);
        EXPECT_EQ(values(exact.choice), values(kept));
        EXPECT_EQ(values(exact.probabilities), values(kept_p));
      }
    }
  }
}

TEST_F(RouterExtras, NoiseDependsOnTheTokensIndexAlone) {
  const RandomKey key{5, 6};
  const Tensor x = random_tensor(DType::f32, {3, 70}, 1);
  const Tensor exact = host_tensor(DType::f64, {3, 70});
  const Tensor index = integers(DType::i64, {100, 3, 7});
  reference::jitter({to_f64(x), exact, 0.25, key, index});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor in = test::converted(x, dtype), out = host_tensor(dtype, {3, 70});
    jitter(context_, {in, out, 0.25, key, index});
    for (int64_t i = 0; i < 210; ++i)
      EXPECT_NEAR(element(out, i), element(exact, i), dtype == DType::f32 ? 1e-6 : 4e-2);
  }
  const Tensor one = host_tensor(DType::f32, {1, 70});
  jitter(context_, {x.slice(0, 1, 1), one, 0.25, key, index.slice(0, 1, 1)});
  const Tensor all = host_tensor(DType::f32, {3, 70});
  jitter(context_, {x, all, 0.25, key, index});
  EXPECT_EQ(values(one), values(all.slice(0, 1, 1)));
  for (int64_t i = 0; i < 210; ++i) {
    EXPECT_LE(std::abs(element(all, i) - element(x, i)), 0.2501 * std::abs(element(x, i)));
    EXPECT_NE(element(all, i), element(x, i));
  }
}

TEST_F(RouterExtras, RandomScoresAreEvenAndThoseOfTheReference) {
  std::vector<int64_t> tokens;
  for (int64_t t = 0; t < 2000; ++t) tokens.push_back(t);
  const Tensor index = integers(DType::i64, tokens);
  const Tensor out = host_tensor(DType::f32, {2000, 5}), exact = host_tensor(DType::f64, {2000, 5});
  random_rows(context_, {out, {1, 2}, index});
  reference::random_rows({exact, {1, 2}, index});
  EXPECT_EQ(values(out), values(exact));
  for (int64_t e = 0; e < 5; ++e) {
    double sum = 0;
    for (int64_t t = 0; t < 2000; ++t) sum += element(out, t * 5 + e);
    EXPECT_NEAR(sum / 2000, 0.5, 0.03);
  }
}

TEST_F(RouterExtras, ChecksRefuseWhatTheContractDoesNotAllow) {
  LimitExpertsArgs limit = full_expert(DropPolicy::position);
  limit.capacity = 0;
  EXPECT_THAT([&] { limit_experts(context_, limit); },
              ThrowsMessage<ShapeError>(HasSubstr("3 experts of 0 tokens each")));
  limit.capacity = 1, limit.experts_together = 2;
  EXPECT_THAT([&] { limit_experts(context_, limit); },
              ThrowsMessage<ShapeError>(
                  HasSubstr("runs of 2 experts, expected a divisor of their number 3")));
  const Tensor x = random_tensor(DType::f32, {2, 4}, 1);
  EXPECT_THAT(
      [&] {
        jitter(context_, {x, x, 1.5, {}, integers(DType::i64, {1, 2})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("epsilon 1.5")));
  EXPECT_THAT(
      [&] {
        random_rows(context_, {x, {}, integers(DType::i64, {1, 2, 3})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("token_index")));
  EXPECT_THAT(
      [&] {
        load_error(context_, {integers(DType::i64, {1, 2}), host_tensor(DType::f32, {3})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("out")));
}

}  // namespace
}  // namespace viaduct
