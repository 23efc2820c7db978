// Every layer's backward against finite differences, in FP64: small models that together contain
// every term of the families. For each parameter the derivative of the loss along a random
// direction over all its elements is compared.

#include <gtest/gtest.h>

#include <random>

#include "engine/engine.h"
#include "model/initialize.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::tiny_model;

/// The tiny models, with further terms of the backward.
std::vector<test::TinyModel> variants() {
  ModelConfig biases = tiny_model("qwen2");
  biases.projection_bias = biases.up_bias = biases.down_bias = true;
  ModelConfig geglu = tiny_model("qwen3");
  geglu.activation = ActivationKind::gelu;
  ModelConfig windows = tiny_model("gemma2");
  windows.windows = {4, 0};
  windows.tied_embeddings = false;
  ModelConfig plain = tiny_model("gpt2");
  plain.embedding_dropout = plain.residual_dropout = plain.attention_dropout = 0;
  ModelConfig unfused = windows;
  unfused.attention_dropout = 0.2;
  unfused.flash_attention = unfused.rope_fusion = false;
  ModelConfig steps = unfused;
  steps.masked_softmax_fusion = false;
  ModelConfig neighbours = tiny_model("qwen3");
  neighbours.rotary.interleaved = true;
  return {{"rotary_neighbours", neighbours},
          {"gemma2_unfused", unfused},
          {"gemma2_unfused_steps", steps},
          {"llama", tiny_model("llama")},
          {"biases_tied_window", biases},
          {"qk_norm_geglu", geglu},
          {"gemma2", windows},
          {"gpt2", plain},
          {"gpt2_dropout", tiny_model("gpt2")}};
}

/// Two rows, the first packed from two documents; some tokens have weight 0.
HostBatch make_batch(int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(7);
  int64_t index = 100;
  for (const int length : {5, 3, 8}) {
    for (int i = 0; i < length; ++i) {
      batch.ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
      batch.positions.push_back(i);
      const bool scored = i + 1 < length && random() % 5 != 0;
      batch.targets.push_back(
          scored ? static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)) : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back(index++);
    }
    batch.end_document();
  }
  return batch;
}

class ModelGradient : public testing::TestWithParam<test::TinyModel> {};

TEST_P(ModelGradient, EqualsFiniteDifferences) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.positions = 16;
  Engine engine(*device, ops, GetParam().config, run);
  engine.initialize();
  OpContext context{*device, ops};
  // Norm weights and biases away from 1 and 0, so that no term vanishes.
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (const Parameter* p : engine.store().parameters()) {
    if (p->weight_gradient) continue;
    double* values = engine.store().master(*p).data<double>();
    for (int64_t i = 0; i < p->shape.elements(); ++i) values[i] += 0.2 * normal(random);
  }
  engine.store().publish_masters(context);

  const HostBatch batch = make_batch(GetParam().config.vocabulary);
  const auto loss = [&] {  // sum of the token losses, dropout on as in the step
    RankContext rank = engine.context(true, false);
    fill(rank.ops, {rank.loss_state, 0});
    SavedStore nothing(false);
    engine.model().forward(rank, 0, {}, upload(*device, batch, GetParam().config.vocabulary, 16),
                           {}, nothing);
    const Tensor value = rank.ops.allocate(DType::f64, {1}, MemoryTag::other);
    sum_value(rank.ops, {rank.loss_state, value});
    return *value.data<double>();
  };
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  engine.finish_step(1, false);

  for (const Parameter* p : engine.store().parameters()) {
    const int64_t n = p->shape.elements();
    double* values = engine.store().master(*p).data<double>();
    const double* gradient = engine.store().main_gradient(*p).data<double>();
    const std::vector<double> original(values, values + n);
    std::vector<double> direction(static_cast<size_t>(n));
    double expected = 0, size = 0;
    for (int64_t i = 0; i < n; ++i) {
      direction[static_cast<size_t>(i)] = normal(random);
      expected += gradient[i] * direction[static_cast<size_t>(i)];
      size += std::abs(gradient[i] * direction[static_cast<size_t>(i)]);
    }
    const double step = 1e-5;
    double side[2];
    for (int s = 0; s < 2; ++s) {
      for (int64_t i = 0; i < n; ++i)
        values[i] = original[static_cast<size_t>(i)] +
                    (s == 0 ? step : -step) * direction[static_cast<size_t>(i)];
      side[s] = loss();
    }
    std::copy(original.begin(), original.end(), values);
    EXPECT_NEAR((side[0] - side[1]) / (2 * step), expected, 1e-6 * (1 + size)) << p->path;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelGradient, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
