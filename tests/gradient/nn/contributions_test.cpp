// A weight gradient in several contributions (chunks of tokens in the head, micro-batches
// everywhere) equals the one computed at once. In FP64, so that only the order of sums differs.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "engine/engine.h"
#include "model/initialize.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"

namespace viaduct {
namespace {

constexpr int kDocument = 64;

ModelConfig small_model() {
  ModelConfig c;
  c.family = "llama";
  c.layers = 1, c.hidden = 8, c.feed_forward = 6, c.heads = 2, c.kv_heads = 1, c.head_dim = 4;
  c.vocabulary = 11, c.max_positions = kDocument;
  c.rotary.width = 4;
  c.attention_scale = 0.5;
  c.init_std = 0.3;
  return c;
}

/// The gradients of all parameters over `documents` documents, `per_batch` of them in a
/// micro-batch.
std::vector<std::vector<double>> gradients(int documents, int per_batch) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.positions = kDocument;
  DdpConfig ddp;
  ddp.overlap_grad_reduce = false;  // the step has the micro-batches of several calls
  ddp.resolve(1, false);
  run.store = store_settings(ddp);
  Engine engine(*device, ops, small_model(), run);
  engine.initialize();
  engine.begin_step({});
  std::mt19937 random(3);
  int64_t index = 0;
  HostBatch batch;
  for (int document = 0; document < documents; ++document) {
    for (int i = 0; i < kDocument; ++i) {
      batch.ids.push_back(static_cast<int32_t>(random() % 11));
      batch.targets.push_back(static_cast<int32_t>(random() % 11));
      batch.positions.push_back(i);
      batch.loss_weight.push_back(1.0f);
      batch.token_index.push_back(index++);
    }
    batch.end_document();
    if ((document + 1) % per_batch != 0 && document + 1 != documents) continue;
    engine.run_micro_batches(1, [&](int64_t) { return batch; });
    batch = HostBatch();
  }
  engine.finish_step(1, false);
  std::vector<std::vector<double>> result;
  for (const Parameter* p : engine.store().parameters()) {
    const double* values = engine.store().main_gradient(*p).data<double>();
    result.emplace_back(values, values + p->shape.elements());
  }
  return result;
}

TEST(GradientContributions, AddUp) {
  // More tokens than a chunk of the head holds (at most 4,096), then few enough.
  const auto whole = gradients(70, 70), parts = gradients(70, 10);
  ASSERT_EQ(whole.size(), parts.size());
  for (size_t p = 0; p < whole.size(); ++p) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < whole[p].size(); ++i) {
      difference += (whole[p][i] - parts[p][i]) * (whole[p][i] - parts[p][i]);
      norm += whole[p][i] * whole[p][i];
    }
    EXPECT_GT(norm, 0) << "parameter " << p;
    EXPECT_LE(difference, 1e-24 * norm) << "parameter " << p;
  }
}

}  // namespace
}  // namespace viaduct
