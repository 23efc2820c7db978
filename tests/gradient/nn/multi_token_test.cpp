// Multi-token prediction: its losses compared with the report's formulas in plain FP64 loops,
// around blocks that other engines run; and the gradient of the total with finite differences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/engine.h"
#include "engine/shift_tokens.h"
#include "model/segment_walk.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "support/finite_differences.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::tiny_model;

constexpr int64_t kTokens = 16;
constexpr double kScale = 0.7;

/// Two rows, the first packed from two documents, of which the second is shorter than a depth; some
/// tokens have weight 0.
HostBatch make_batch(int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(7);
  for (const int length : {6, 2, 8}) {
    for (int i = 0; i < length; ++i) {
      batch.ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
      batch.positions.push_back(i);
      const bool scored = random() % 5 != 0;
      batch.targets.push_back(
          scored ? static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)) : -1);
      batch.loss_weight.push_back(scored ? 0.5f + 0.25f * static_cast<float>(i % 3) : 0.0f);
      batch.token_index.push_back(100 + batch.tokens());
    }
    batch.end_document();
  }
  return batch;
}

ResolvedRun fp64_run() {
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.positions = kTokens;
  return run;
}

/// Norm weights away from 1, so that no term vanishes.
void disturb(Engine& engine, Device& device, const OpTable& ops) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (const Parameter* p : engine.store().parameters()) {
    if (p->weight_gradient) continue;
    double* values = engine.store().master(*p).data<double>();
    for (int64_t i = 0; i < p->shape.elements(); ++i) values[i] += 0.2 * normal(random);
  }
  OpContext context{device, ops};
  engine.store().publish_masters(context);
}

ModelConfig with_layers(ModelConfig model, int64_t layers) {
  model.mtp_layers = layers;
  model.mtp_loss_scale = kScale;
  return model;
}

using Rows = std::vector<std::vector<double>>;

const double* weight(Engine& engine, const std::string& path) {
  for (const Parameter* p : engine.store().parameters())
    if (p->path == path) return engine.store().master(*p).data<double>();
  ADD_FAILURE() << "no parameter " << path;
  return nullptr;
}

std::vector<double> rms_norm(const std::vector<double>& x, const double* w, double eps) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * factor * w[i];
  return y;
}

/// The rows that the head of an engine would read, before its norm.
Rows stream_of(Engine& engine, const HostBatch& batch) {
  Rows rows;
  engine.forward(engine.upload_part(batch), [&](const HeadSegment&, const Tensor& stream) {
    for (int64_t t = 0; t < stream.dim(0); ++t) {
      const double* row = stream.data<double>() + t * stream.dim(1);
      rows.emplace_back(row, row + stream.dim(1));
    }
  });
  return rows;
}

/// Runs `rows` through a block that has the weights of block `block` of `of`: the model of one
/// block whose token i is embedded as row i.
Rows through_block(Engine& of, int64_t block, const Rows& rows, HostBatch batch,
                   const ModelConfig& config, Device& device, const OpTable& ops) {
  ModelConfig one = config;
  one.layers = 1, one.mtp_layers = 0, one.windows = {0};
  one.vocabulary = kTokens;
  const ResolvedRun run = fp64_run();
  Engine engine(device, ops, one, run);
  engine.initialize();
  for (const Parameter* p : engine.store().parameters()) {
    double* to = engine.store().master(*p).data<double>();
    if (p->path == "embedding.tokens") {
      for (size_t i = 0; i < rows.size(); ++i)
        std::copy(rows[i].begin(), rows[i].end(), to + i * rows[i].size());
    } else if (p->path.starts_with("blocks.0.")) {
      const std::string path = "blocks." + std::to_string(block) + p->path.substr(8);
      std::copy_n(weight(of, path), p->shape.elements(), to);
    }
  }
  OpContext context{device, ops};
  engine.store().publish_masters(context);
  for (int64_t i = 0; i < kTokens; ++i) batch.ids[static_cast<size_t>(i)] = static_cast<int32_t>(i);
  std::fill(batch.targets.begin(), batch.targets.end(), -1);
  return stream_of(engine, batch);
}

TEST(MultiTokenPrediction, HasTheLossesOfTheFormulas) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ModelConfig config = with_layers(tiny_model("llama"), 2);
  config.windows.clear();
  const ResolvedRun run = fp64_run();
  Engine engine(*device, ops, config, run);
  engine.initialize();
  disturb(engine, *device, ops);
  const HostBatch batch = make_batch(config.vocabulary);
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  const StepResult result = engine.finish_step(batch.scored_weight(), false);
  ASSERT_EQ(result.depth_losses.size(), 2u);

  const auto h = static_cast<size_t>(config.hidden), v = static_cast<size_t>(config.vocabulary);
  const double* table = weight(engine, "embedding.tokens");
  const double* head = weight(engine, "head.weight");
  const double* norm = weight(engine, "head.norm.weight");
  Rows stream = stream_of(engine, batch);
  for (int64_t k = 1; k <= 2; ++k) {
    const std::string path = "multi_token." + std::to_string(k - 1);
    const double* hidden_norm = weight(engine, path + ".hidden_norm.weight");
    const double* embedding_norm = weight(engine, path + ".embedding_norm.weight");
    const double* projection = weight(engine, path + ".projection.weight");
    const auto document_end = [&](int64_t t) {
      return *std::upper_bound(batch.document_offsets.begin(), batch.document_offsets.end(), t);
    };
    Rows inputs;
    for (int64_t t = 0; t < kTokens; ++t) {
      const bool inside = t + k < document_end(t);
      const auto id = static_cast<size_t>(inside ? batch.ids[static_cast<size_t>(t + k)] : 0);
      const std::vector<double> embedded(table + id * h, table + (id + 1) * h);
      std::vector<double> both = rms_norm(embedded, embedding_norm, config.norm_eps);
      const auto before = rms_norm(rms_norm(stream[static_cast<size_t>(t)], norm, config.norm_eps),
                                   hidden_norm, config.norm_eps);
      both.insert(both.end(), before.begin(), before.end());
      std::vector<double> row(h, 0);
      for (size_t i = 0; i < h; ++i)
        for (size_t j = 0; j < 2 * h; ++j) row[i] += projection[i * 2 * h + j] * both[j];
      inputs.push_back(row);
    }
    stream = through_block(engine, config.layers + k - 1, inputs, batch, config, *device, ops);
    norm = weight(engine, path + ".head_norm.weight");
    double loss = 0, weights = 0;
    for (int64_t t = 0; t < kTokens; ++t) {
      if (t + k >= document_end(t)) continue;
      const auto from = static_cast<size_t>(t + k);
      if (batch.targets[from] < 0) continue;
      const auto normed = rms_norm(stream[static_cast<size_t>(t)], norm, config.norm_eps);
      std::vector<double> logits(v, 0);
      double sum = 0;
      for (size_t i = 0; i < v; ++i) {
        for (size_t j = 0; j < h; ++j) logits[i] += head[i * h + j] * normed[j];
        sum += std::exp(logits[i]);
      }
      const double w = batch.loss_weight[from];
      loss += w * (std::log(sum) - logits[static_cast<size_t>(batch.targets[from])]);
      weights += w;
    }
    EXPECT_NEAR(result.depth_losses[static_cast<size_t>(k - 1)], loss / weights, 1e-11) << k;
  }
}

struct Variant {
  std::string name;
  ModelConfig model;
  bool recompute_logits = true, fused = true;
};
void PrintTo(const Variant& variant, std::ostream* os) {
  *os << variant.name;
}

std::vector<Variant> variants() {
  ModelConfig tied = tiny_model("gemma2");  // tied, scaled embedding, soft caps, windows
  tied.embedding_dropout = tied.residual_dropout = 0.2;
  ModelConfig latent = tiny_model("qwen3");
  latent.family = "deepseek_v2";
  latent.moe = tiny_model("mixtral").moe;
  latent.moe.layers = {0, 1};
  latent.moe.feed_forward = 10, latent.moe.shared_feed_forward = 8;
  latent.latent = {.q_rank = 5, .kv_rank = 6, .plain_dim = 3, .rotary_dim = 4, .value_dim = 5};
  latent.qk_norm = true;
  latent.kv_heads = latent.heads, latent.head_dim = 7;
  latent.rotary.width = 4;
  ModelConfig bias = tiny_model("llama");  // on the logits of all depths
  bias.head_bias = true;
  return {{"one", with_layers(tiny_model("llama"), 1)},
          {"head_bias", with_layers(bias, 2)},
          {"head_bias_kept_logits", with_layers(bias, 1), false},
          {"two", with_layers(tiny_model("llama"), 2)},
          {"kept_logits", with_layers(tiny_model("llama"), 2), false},
          {"composed_loss", with_layers(tiny_model("llama"), 1), true, false},
          {"tied", with_layers(tied, 2)},
          {"latent_experts", with_layers(latent, 2)}};
}

class MultiTokenGradient : public testing::TestWithParam<Variant> {};

TEST_P(MultiTokenGradient, EqualsFiniteDifferences) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run = fp64_run();
  run.layers.recompute_logits = GetParam().recompute_logits;
  run.layers.fusions.cross_entropy = GetParam().fused;
  const ModelConfig& config = GetParam().model;
  Engine engine(*device, ops, config, run);
  engine.initialize();
  disturb(engine, *device, ops);
  HostBatch batch = make_batch(config.vocabulary);
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  const StepResult result = engine.finish_step(1, false);
  for (const double depth : result.depth_losses) EXPECT_GT(depth, 0.1);

  add_shifted_tokens(batch, config.mtp_layers);
  const auto loss = [&] {  // of the total, over all tokens
    RankContext rank = engine.context(true, true);
    fill(rank.ops, {rank.loss_state, 0});
    fill(rank.ops, {rank.depth_losses, 0});
    SavedStore nothing(false);
    const Batch uploaded = upload(*device, batch, config.vocabulary, kTokens);
    SegmentWalk(engine.model().chunks()[0], rank, uploaded, nothing).forward({}, {});
    const auto sum = [&](const Tensor& state) {
      const Tensor value = rank.ops.allocate(DType::f64, {1}, MemoryTag::other);
      sum_value(rank.ops, {state, value});
      return *value.data<double>();
    };
    double total = sum(rank.loss_state);
    for (int64_t depth = 0; depth < config.mtp_layers; ++depth)
      total += kScale / static_cast<double>(config.mtp_layers) *
               sum(rank.depth_losses.select(depth).select(0));
    return total;
  };
  std::mt19937 random(3);
  for (const Parameter* p : engine.store().parameters()) {
    const Tensor gradient = engine.store().main_gradient(*p);
    const double* values = gradient.data<double>();
    EXPECT_TRUE(std::any_of(values, values + p->shape.elements(), [](double g) { return g != 0; }))
        << p->path;
    test::expect_slope(engine, *p, random, loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MultiTokenGradient, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
