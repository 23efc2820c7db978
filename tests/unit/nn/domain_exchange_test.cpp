// The first step of an exchange by domain: each token goes once to each domain that has one of its
// experts, and the results are summed once for each of them.

#include "nn/moe/domain_exchange.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "comm/world.h"
#include "support/instruction_set.h"
#include "support/no_weights.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

constexpr int64_t kTokens = 29, kTopk = 3, kExperts = 8, kWidth = 5;
constexpr int kRanks = 4;

/// Different experts for each token; some choices are dropped, and all choices of token 4.
Tensor choice_of(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  const Tensor choice = host_tensor(DType::i32, {kTokens, kTopk});
  for (int64_t t = 0; t < kTokens; ++t) {
    std::set<int32_t> chosen;
    while (chosen.size() < kTopk) chosen.insert(static_cast<int32_t>(random() % kExperts));
    int64_t j = 0;
    for (const int32_t expert : chosen)
      choice.data<int32_t>()[t * kTopk + j++] = t == 4 || random() % 5 == 0 ? -1 : expert;
  }
  return choice;
}

/// Domains with an expert of each token.
std::vector<std::set<int64_t>> domains_hit(const Tensor& choice, int64_t domains) {
  std::vector<std::set<int64_t>> hit(kTokens);
  for (int64_t i = 0; i < choice.elements(); ++i) {
    const int32_t expert = choice.data<int32_t>()[i];
    if (expert >= 0) hit[static_cast<size_t>(i / kTopk)].insert(expert / (kExperts / domains));
  }
  return hit;
}

class DomainExchange : public testing::TestWithParam<int> {};

TEST_P(DomainExchange, SendsATokenOnceToEachDomainOfItsExperts) {
  const int domains = GetParam();
  run_thread_ranks(kRanks, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    const auto device = make_cpu_device(1);
    world->record_on(device.get());
    const Mesh mesh = Mesh::make({.ranks = kRanks, .ep = kRanks, .etp = 1}, "tp-cp-ep-dp-pp",
                                 {.expert_domains = domains});
    const ParallelGroups groups(mesh, world);
    const OpTable ops = cpu_ops(test::instruction_set());
    const LayerSettings settings{.precision = precision_recipe("fp32")};
    test::NoWeights weights;
    RankContext context{
        .ops = {*device, ops}, .weights = weights, .groups = groups, .settings = settings};
    StepRecord record;
    device->set_record(&record);

    MoeConfig moe;
    moe.experts = kExperts, moe.routing.topk = kTopk, moe.dispatch = ExpertDispatch::fused;
    const ExpertPlace place{.ranks = kRanks, .own_grid = true, .domains = domains, .fused = true};
    const Tensor choice = choice_of(world->rank());
    const auto hit = domains_hit(choice, domains);
    const DomainOrder order = agree_on_domains(context, moe, place, choice, MemoryTag::activations);
    const int64_t own_domain = world->rank() / (kRanks / domains);
    int64_t copies = 0, leave = 0;
    for (const auto& of_token : hit) {
      copies += static_cast<int64_t>(of_token.size());
      leave += static_cast<int64_t>(of_token.size() - of_token.count(own_domain));
    }
    EXPECT_EQ(order.tokens.dim(0), copies);

    const Tensor tokens = host_tensor(DType::f32, {kTokens, kWidth});
    for (int64_t i = 0; i < tokens.elements(); ++i)
      tokens.data<float>()[i] = static_cast<float>(1000 * world->rank() + i);
    const int64_t before = static_cast<int64_t>(record.collectives().size());
    const Tensor arrived =
        begin_to_domains(context, place, order, tokens, MemoryTag::activations).finish().tensor();
    const CollectiveRecord& sent = record.collectives().at(static_cast<size_t>(before));
    EXPECT_EQ(sent.group, "ep.outer");
    EXPECT_EQ(sent.wire_bytes, leave * kWidth * 4) << "once to each domain except its own";

    // From each rank at this place, its tokens with an expert of this domain, in their order.
    ASSERT_EQ(arrived.dim(0), order.arriving());
    int64_t row = 0;
    for (int domain = 0; domain < domains; ++domain) {
      const int from = world->rank() % (kRanks / domains) + domain * (kRanks / domains);
      const auto theirs = domains_hit(choice_of(from), domains);
      for (int64_t t = 0; t < kTokens; ++t) {
        if (theirs[static_cast<size_t>(t)].count(own_domain) == 0) continue;
        EXPECT_EQ(arrived.data<float>()[row++ * kWidth],
                  static_cast<float>(1000 * from + t * kWidth));
      }
    }
    EXPECT_EQ(row, arrived.dim(0));

    const Tensor sum = begin_sums_home(context, place, order, arrived).finish(context);
    for (int64_t i = 0; i < sum.elements(); ++i) {
      const auto times = static_cast<float>(hit[static_cast<size_t>(i / kWidth)].size());
      EXPECT_EQ(sum.data<float>()[i], times * tokens.data<float>()[i]) << i;
    }
    device->set_record(nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Domains, DomainExchange, testing::Values(2, 4));

TEST(DomainExchangeOfDryRuns, CopiesAreThoseOfRandomChoices) {
  MoeConfig moe;
  moe.experts = 8, moe.routing.topk = 2;
  // Probability that both experts are in one of two domains: 2 · (4 · 3) / (8 · 7) = 3/7; else one
  // in each.
  EXPECT_EQ(expected_domain_tokens(moe, 2, 700), 700 * 3 / 7 + 2 * 700 * 4 / 7);
  // Each choice is kept with probability 1/2: a domain with both has one left with 3/4.
  EXPECT_EQ(expected_domain_tokens(moe, 2, 700, 0.5), 700 * 3 / 7 * 3 / 4 + 2 * 700 * 4 / 7 / 2);
  moe.routing.topk = 8;
  EXPECT_EQ(expected_domain_tokens(moe, 4, 10), 40) << "all experts are in all domains";
  moe.routing.topk = 4, moe.routing.groups = 4, moe.routing.group_topk = 2;
  EXPECT_EQ(expected_domain_tokens(moe, 4, 10), 20) << "only experts of two groups";
}

}  // namespace
}  // namespace viaduct
