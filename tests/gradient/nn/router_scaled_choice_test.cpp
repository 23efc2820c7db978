// Routers that choose by scaled logits (Sinkhorn), in FP64: loads and weights of experts compared
// with the definition, computed from the tokens that the routers read and from their weights. The
// choice is balanced in training only.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/engine.h"
#include "model/segment_walk.h"
#include "nn/moe/moe_edges.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using Row = std::vector<double>;

constexpr int64_t kTokens = 40;

HostBatch some_tokens(int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(3);
  for (int64_t i = 0; i < kTokens; ++i) {
    batch.ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
    batch.positions.push_back(static_cast<int32_t>(i % 8));
    batch.targets.push_back(1);
    batch.loss_weight.push_back(1);
    batch.token_index.push_back(i);
    if (i % 8 == 7) batch.end_document();
  }
  return batch;
}

/// The inputs and outputs of each router of a forward.
class Routers : public SegmentHooks {
 public:
  struct Seen {
    std::vector<Row> tokens;
    Row probabilities;            // [T, k]
    std::vector<int64_t> counts;  // [E]
  };
  void after(const SegmentEvent& event, const TensorSet& out) override {
    if (event.segment.name() != "router") return;
    Seen& seen = of_layer.emplace_back();
    const Tensor tokens = out.get(moe_edge::tokens), p = out.get(moe_edge::probabilities),
                 n = out.get(moe_edge::counts);
    for (int64_t t = 0; t < tokens.dim(0); ++t) {
      const double* row = tokens.select(t).data<double>();
      seen.tokens.emplace_back(row, row + tokens.dim(1));
    }
    seen.probabilities.assign(p.data<double>(), p.data<double>() + p.elements());
    seen.counts.assign(n.data<int64_t>(), n.data<int64_t>() + n.elements());
  }
  std::vector<Seen> of_layer;
};

/// exp(logits), either unscaled or scaled until rows sum to 1 / T and columns to 1 / E.
std::vector<Row> scaled(std::vector<Row> cost, bool scale) {
  if (!scale) return cost;
  const size_t experts = cost[0].size();
  const auto tokens = static_cast<double>(cost.size());
  Row column(experts, 1);
  for (double error = 1; error > 1e-4;) {
    Row sum(experts, 1e-8);
    for (const Row& row : cost) {
      double own = 1e-8;
      for (size_t e = 0; e < experts; ++e) own += column[e] * row[e];
      for (size_t e = 0; e < experts; ++e) sum[e] += row[e] / (tokens * own);
    }
    error = 0;
    for (size_t e = 0; e < experts; ++e) {
      const double next = 1 / (static_cast<double>(experts) * sum[e]);
      error += std::abs(next - column[e]) / static_cast<double>(experts);
      column[e] = next;
    }
  }
  for (Row& row : cost)
    for (size_t e = 0; e < experts; ++e) row[e] *= column[e];
  return cost;
}

/// Loads and weights by the definition.
Routers::Seen expected(const std::vector<Row>& tokens, const double* weight,
                       const RoutingRule& rule, size_t experts, bool training) {
  std::vector<Row> cost;
  for (const Row& token : tokens) {
    Row& row = cost.emplace_back(experts);
    for (size_t e = 0; e < experts; ++e) {
      row[e] = std::exp(std::inner_product(token.begin(), token.end(),
                                           weight + static_cast<int64_t>(e * token.size()), 0.0));
    }
  }
  const std::vector<Row> matrix = scaled(cost, training);
  Routers::Seen seen;
  seen.counts.assign(experts, 0);
  for (size_t t = 0; t < tokens.size(); ++t) {
    std::vector<size_t> order(experts);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) { return matrix[t][a] > matrix[t][b]; });
    const double all = std::accumulate(cost[t].begin(), cost[t].end(), 0.0);
    for (size_t j = 0; j < static_cast<size_t>(rule.topk); ++j) {
      ++seen.counts[order[j]];
      const double x = cost[t][order[j]];
      seen.probabilities.push_back(rule.topk == 1 ? x / (1 + x) : x / all);
    }
  }
  return seen;
}

class RouterScaledChoice : public testing::TestWithParam<int64_t> {};

TEST_P(RouterScaledChoice, IsTheDefinitionsInTrainingAndPlainElsewhere) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.positions = 16;
  ModelConfig config = test::tiny_model("mixtral");
  config.moe.sinkhorn = true;
  config.moe.routing = {.score = ScoreFunction::sigmoid, .topk = 1, .choose_logits = true};
  if (GetParam() == 2) config.moe.routing = {.pre_softmax = true, .choose_logits = true};
  Engine engine(*device, ops, config, run);
  engine.initialize();
  std::vector<const double*> weights;
  for (const Parameter* p : engine.store().parameters()) {
    if (!p->path.ends_with(".mlp.router.weight")) continue;
    double* weight = engine.store().master(*p).data<double>();
    const int64_t hidden = p->shape[1];
    // Experts with very different loads: each expert gives more tokens a larger logit than the one
    // before it.
    for (int64_t i = 0; i < p->shape.elements(); ++i)
      weight[i] *= 1 + static_cast<double>(i / hidden);
    weights.push_back(weight);
  }
  ASSERT_EQ(weights.size(), 2u);
  const auto experts = static_cast<size_t>(config.moe.experts);
  std::vector<std::vector<int64_t>> loads;
  for (const bool training : {true, false}) {
    RankContext rank = engine.context(training, false);
    fill(rank.ops, {rank.loss_state, 0});
    Routers routers;
    SavedStore nothing(false);
    SegmentHooks* hooks[] = {&routers};
    const Batch batch = upload(*device, some_tokens(config.vocabulary), config.vocabulary, 16);
    SegmentWalk(engine.model().chunks()[0], rank, batch, nothing, hooks).forward({}, {});
    ASSERT_EQ(routers.of_layer.size(), 2u);
    for (size_t layer = 0; layer < 2; ++layer) {
      const Routers::Seen& got = routers.of_layer[layer];
      const Routers::Seen want =
          expected(got.tokens, weights[layer], config.moe.routing, experts, training);
      EXPECT_EQ(got.counts, want.counts) << "layer " << layer << " training " << training;
      ASSERT_EQ(got.probabilities.size(), want.probabilities.size());
      for (size_t i = 0; i < want.probabilities.size(); ++i)
        EXPECT_NEAR(got.probabilities[i], want.probabilities[i], 1e-12) << i;
    }
    loads.push_back(routers.of_layer[0].counts);
  }
  const auto spread = [](const std::vector<int64_t>& n) {
    const auto [least, most] = std::minmax_element(n.begin(), n.end());
    return *most - *least;
  };
  EXPECT_LT(spread(loads[0]), spread(loads[1]));
}

INSTANTIATE_TEST_SUITE_P(ExpertsOfAToken, RouterScaledChoice, testing::Values(1, 2));

}  // namespace
}  // namespace viaduct
