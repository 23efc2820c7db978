// The weight of routers' own losses in the gradient, in FP64: their coefficient times the mean over
// all tokens of the global batch, with masked labels too, for both kinds of mean of the loss and
// for any size of micro-batch.

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

constexpr int kRows = 4, kLength = 6;
constexpr double kBalance = 0.3, kZ = 0.2;

/// One of three labels of the first row is scored, of the last one all are.
HostBatch rows_from(int first, int count, int64_t vocabulary) {
  HostBatch batch;
  for (int row = first; row < first + count; ++row) {
    std::mt19937 random(static_cast<unsigned>(row));
    const auto token = [&] {
      return static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
    };
    for (int i = 0; i < kLength; ++i) {
      const bool scored = i % 3 <= row;
      batch.ids.push_back(token());
      batch.positions.push_back(i);
      batch.targets.push_back(scored ? token() : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back(row * kLength + i);
    }
    batch.end_document();
  }
  return batch;
}

/// The tokens that the last router reads.
class RouterInputs : public SegmentHooks {
 public:
  void after(const SegmentEvent& event, const TensorSet& out) override {
    if (event.segment.name() != "router") return;
    rows.clear();
    const Tensor tokens = out.get(moe_edge::tokens);
    for (int64_t t = 0; t < tokens.dim(0); ++t) {
      const double* row = tokens.select(t).data<double>();
      rows.emplace_back(row, row + tokens.dim(1));
    }
  }
  std::vector<Row> rows;
};

struct Step {
  Row gradient, weight;  // of the last router
  std::vector<Row> tokens;
  int64_t experts = 0, topk = 0;
};

/// `balance`, `z`: coefficients of the balancing loss of each row, and of the z-loss.
Step run_step(double balance, double z, bool per_token, int rows_each, double loss_scale = 1) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.positions = kLength;
  run.calculate_per_token_loss = per_token;
  ModelConfig config = test::tiny_model("mixtral");
  if (balance != 0) config.moe.balance_losses = {{balance, BalanceScope::document}};
  config.moe.z_coefficient = z;
  Engine engine(*device, ops, config, run);
  engine.initialize();
  Step step;
  step.experts = config.moe.experts, step.topk = config.moe.routing.topk;
  RouterInputs inputs;
  RankContext rank = engine.context(false, false);
  fill(rank.ops, {rank.loss_state, 0});
  SavedStore nothing(false);
  SegmentHooks* hooks[] = {&inputs};
  const Batch batch =
      upload(*device, rows_from(0, kRows, config.vocabulary), config.vocabulary, kLength);
  SegmentWalk(engine.model().chunks()[0], rank, batch, nothing, hooks).forward({}, {});
  step.tokens = inputs.rows;
  StepInputs with;
  with.loss_scale = loss_scale;
  engine.begin_step(with);
  double scored = 0;
  engine.run_micro_batches(
      kRows / rows_each,
      [&](int64_t i) {
        HostBatch batch = rows_from(static_cast<int>(i) * rows_each, rows_each, config.vocabulary);
        scored += batch.scored_weight();
        return batch;
      },
      false);
  engine.finish_step(scored, false);
  for (const Parameter* p : engine.store().parameters()) {
    if (!p->path.ends_with(".mlp.router.weight")) continue;
    const int64_t n = p->shape.elements();
    const double* weight = engine.store().master(*p).data<double>();
    step.weight.assign(weight, weight + n);
    const double* gradient = engine.store().main_gradient(*p).data<double>();
    step.gradient.assign(gradient, gradient + n);
    for (double& value : step.gradient) value *= engine.gradient_factor();
  }
  return step;
}

/// d/dW of the mean over tokens of balance · Σ_e p_e · n_e · E / (k · N) + z · logsumexp², with n
/// and N of the token's row.
Row formula(const Step& step, double balance, double z) {
  const auto experts = static_cast<size_t>(step.experts);
  const size_t hidden = step.weight.size() / experts;
  std::vector<Row> p, counts(kRows, Row(experts, 0));
  Row log_sum;
  for (size_t t = 0; t < step.tokens.size(); ++t) {
    Row& x = p.emplace_back(experts);
    for (size_t e = 0; e < experts; ++e) {
      x[e] = std::inner_product(step.tokens[t].begin(), step.tokens[t].end(),
                                step.weight.begin() + static_cast<int64_t>(e * hidden), 0.0);
    }
    std::vector<size_t> order(experts);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) { return x[a] > x[b]; });
    for (int64_t j = 0; j < step.topk; ++j) ++counts[t / kLength][order[static_cast<size_t>(j)]];
    double sum = 0;
    for (double& value : x) sum += value = std::exp(value);
    for (double& value : x) value /= sum;
    log_sum.push_back(std::log(sum));
  }
  Row gradient(step.weight.size(), 0);
  const auto tokens = static_cast<double>(step.tokens.size());
  for (size_t t = 0; t < step.tokens.size(); ++t) {
    Row slope(experts);
    double mean = 0;
    for (size_t e = 0; e < experts; ++e) {
      slope[e] = counts[t / kLength][e] * static_cast<double>(experts) /
                 static_cast<double>(step.topk * kLength);
      mean += slope[e] * p[t][e];
    }
    for (size_t e = 0; e < experts; ++e) {
      const double d = balance * p[t][e] * (slope[e] - mean) + 2 * z * log_sum[t] * p[t][e];
      for (size_t h = 0; h < hidden; ++h)
        gradient[e * hidden + h] += d * step.tokens[t][h] / tokens;
    }
  }
  return gradient;
}

TEST(RouterWeight, IsTheCoefficientInEveryMeanAndMicroBatch) {
  for (const bool per_token : {true, false}) {
    for (const int rows_each : {4, 2, 1}) {
      for (const double loss_scale : {1.0, 1024.0}) {
        const Step none = run_step(0, 0, per_token, rows_each, loss_scale);
        const Step with = run_step(kBalance, kZ, per_token, rows_each, loss_scale);
        const Row expected = formula(with, kBalance, kZ);
        ASSERT_EQ(with.gradient.size(), expected.size());
        double size = 0, most = 0;
        for (size_t i = 0; i < expected.size(); ++i) {
          most = std::max(most, std::abs(with.gradient[i] - none.gradient[i] - expected[i]));
          size = std::max(size, std::abs(expected[i]));
        }
        EXPECT_GT(size, 1e-4);
        EXPECT_LE(most, 1e-12) << "per token: " << per_token
                               << ", rows of a micro-batch: " << rows_each
                               << ", loss scale: " << loss_scale << ", " << size;
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
