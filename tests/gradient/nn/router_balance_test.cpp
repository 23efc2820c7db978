// The balancing loss over the step so far (global_aux_loss), in FP64, compared with its formula
// computed from the tokens that the routers read: with the choices n of all micro-batches up to
// this one and their N tokens, each token's loss is E / (k · N) · Σ_e p_e · n_e.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/engine.h"
#include "model/segment_walk.h"
#include "nn/moe/moe_edges.h"
#include "nn/moe/router_log.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using Row = std::vector<double>;

constexpr double kCoefficient = 0.3;
constexpr int kMicroBatches = 3;

using Losses = std::vector<BalanceLoss>;

ModelConfig model(const Losses& losses = {}) {
  ModelConfig config = test::tiny_model("mixtral");
  config.moe.balance_losses = losses;
  return config;
}

HostBatch micro_batch(int64_t number, int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(static_cast<unsigned>(number));
  for (int i = 0; i < 12; ++i) {
    batch.ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
    batch.positions.push_back(i);
    batch.targets.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
    batch.loss_weight.push_back(1);
    batch.token_index.push_back(number * 12 + i);
  }
  batch.end_document();
  return batch;
}

/// The normed tokens that each router of a forward reads.
class RouterInputs : public SegmentHooks {
 public:
  void after(const SegmentEvent& event, const TensorSet& out) override {
    if (event.segment.name() != "router") return;
    const Tensor tokens = out.get(moe_edge::tokens);
    std::vector<Row>& rows = of_layer[event.layer.block];
    for (int64_t t = 0; t < tokens.dim(0); ++t) {
      const double* row = tokens.select(t).data<double>();
      rows.emplace_back(row, row + tokens.dim(1));
    }
  }
  std::map<int64_t, std::vector<Row>> of_layer;
};

struct Step {
  std::vector<std::vector<double>> sums;  // by layer: of each loss, summed over tokens
  Row gradient;                           // of the last router's weight
  std::vector<RouterInputs> inputs;       // by micro-batch
  Row weights[2];                         // of the routers

  double balance_sum(int layer, int loss) const {
    return sums[static_cast<size_t>(layer)]
               [static_cast<size_t>(loss * RouterLog::kSums + RouterLog::balance_loss)];
  }
};

Step run_step(const Losses& losses) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.positions = 16;
  const ModelConfig config = model(losses);
  Engine engine(*device, ops, config, run);
  engine.initialize();
  Step step;
  for (int i = 0; i < kMicroBatches; ++i) {
    RankContext rank = engine.context(false, false);
    fill(rank.ops, {rank.loss_state, 0});
    SavedStore nothing(false);
    SegmentHooks* hooks[] = {&step.inputs.emplace_back()};
    const Batch batch = upload(*device, micro_batch(i, config.vocabulary), config.vocabulary, 16);
    SegmentWalk(engine.model().chunks()[0], rank, batch, nothing, hooks).forward({}, {});
  }
  engine.begin_step({});
  engine.run_micro_batches(kMicroBatches,
                           [&](int64_t i) { return micro_batch(i, config.vocabulary); });
  engine.finish_step(1, false);
  for (const RouterLog::Layer& layer : engine.router_log()->layers())
    step.sums.emplace_back(layer.sums.data<double>(),
                           layer.sums.data<double>() + layer.sums.elements());
  int router = 0;
  for (const Parameter* p : engine.store().parameters()) {
    if (!p->path.ends_with(".mlp.router.weight")) continue;
    const int64_t n = p->shape.elements();
    const double* weight = engine.store().master(*p).data<double>();
    step.weights[router++].assign(weight, weight + n);
    const double* gradient = engine.store().main_gradient(*p).data<double>();
    step.gradient.assign(gradient, gradient + n);
  }
  EXPECT_EQ(router, 2);
  return step;
}

Row softmax(const Row& weight, const Row& token, size_t experts) {
  Row p(experts);
  for (size_t e = 0; e < experts; ++e) {
    p[e] = std::exp(std::inner_product(
        token.begin(), token.end(), weight.begin() + static_cast<int64_t>(e * token.size()), 0.0));
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

TEST(RouterBalance, OverTheStepCountsTheChoicesSoFar) {
  const Step with = run_step({{kCoefficient, BalanceScope::step}}), without = run_step({});
  const auto experts = static_cast<size_t>(model().moe.experts);
  const auto k = static_cast<size_t>(model().moe.routing.topk);
  for (size_t layer = 0; layer < 2; ++layer) {
    Row counts(experts, 0);
    double tokens = 0, loss = 0;
    Row gradient(with.weights[layer].size(), 0);
    for (const RouterInputs& micro : with.inputs) {
      std::vector<Row> probabilities;
      const std::vector<Row>& inputs = micro.of_layer.at(static_cast<int64_t>(layer));
      for (const Row& token : inputs) {
        const Row& p = probabilities.emplace_back(softmax(with.weights[layer], token, experts));
        std::vector<size_t> order(experts);
        std::iota(order.begin(), order.end(), size_t{0});
        std::ranges::sort(order, [&](size_t a, size_t b) { return p[a] > p[b]; });
        for (size_t j = 0; j < k; ++j) ++counts[order[j]];
        ++tokens;
      }
      for (size_t t = 0; t < inputs.size(); ++t) {
        const Row& p = probabilities[t];
        Row slope(experts);
        double mean = 0;
        for (size_t e = 0; e < experts; ++e) {
          slope[e] = static_cast<double>(experts) / (static_cast<double>(k) * tokens) * counts[e];
          mean += slope[e] * p[e];
        }
        loss += mean;
        for (size_t e = 0; e < experts; ++e)
          for (size_t h = 0; h < inputs[t].size(); ++h)
            gradient[e * inputs[t].size() + h] +=
                kCoefficient * p[e] * (slope[e] - mean) * inputs[t][h];
      }
    }
    EXPECT_NEAR(with.balance_sum(static_cast<int>(layer), 0), loss, 1e-12 * loss)
        << "layer " << layer;
    if (layer == 0) continue;
    // No other loss lies between the last router and the head, so the coefficient adds exactly its
    // gradient.
    double size = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_NEAR(with.gradient[i] - without.gradient[i], gradient[i], 1e-12) << i;
      size = std::max(size, std::abs(gradient[i]));
    }
    EXPECT_GT(size, 1e-3);
  }
}

// Their gradients add up, and each is logged for itself.
TEST(RouterBalance, SeveralLossesAddUp) {
  const BalanceLoss step{kCoefficient, BalanceScope::step}, document{0.7, BalanceScope::document},
      micro{0.4, BalanceScope::micro_batch};
  const Step none = run_step({});
  const Step both = run_step({document, step}), all = run_step({micro, document, step});
  const Step alone[] = {run_step({micro}), run_step({document}), run_step({step})};
  for (size_t i = 0; i < none.gradient.size(); ++i) {
    const auto added = [&](int loss) { return alone[loss].gradient[i] - none.gradient[i]; };
    EXPECT_NEAR(both.gradient[i] - none.gradient[i], added(1) + added(2), 1e-12) << i;
    EXPECT_NEAR(all.gradient[i] - none.gradient[i], added(0) + added(1) + added(2), 1e-12) << i;
  }
  for (int layer = 0; layer < 2; ++layer)
    for (int loss = 0; loss < 3; ++loss)
      EXPECT_EQ(all.balance_sum(layer, loss), alone[loss].balance_sum(layer, 0)) << layer << loss;
}

}  // namespace
}  // namespace viaduct
