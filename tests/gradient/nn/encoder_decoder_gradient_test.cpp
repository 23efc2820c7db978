// The backward of encoder-decoder models compared with finite differences, in FP64: bidirectional
// and cross attention, relative position bias whose table the layers share, a token table that
// encoder, decoder and head share.

#include <gtest/gtest.h>

#include <random>

#include "engine/engine.h"
#include "model/segment_walk.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "support/finite_differences.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

std::vector<test::TinyModel> variants() {
  const ModelConfig plain = test::tiny_t5();
  ModelConfig gated = plain;
  gated.gated = true, gated.activation = ActivationKind::gelu_tanh;
  gated.tied_embeddings = false, gated.logit_scale = 1;
  gated.encoder.layers = 1, gated.layers = 3;
  ModelConfig dropout = plain;  // without a kink near which a value lies here
  dropout.activation = ActivationKind::gelu;
  dropout.embedding_dropout = dropout.residual_dropout = dropout.attention_dropout = 0.2;
  ModelConfig scaled = plain;  // the bias is not scaled
  scaled.attention_scale = 0.6;
  ModelConfig steps = scaled;
  steps.masked_softmax_fusion = steps.flash_attention = false;
  return {{"tied_relu", plain},
          {"gated_gelu", gated},
          {"dropout", dropout},
          {"scaled_scores", scaled},
          {"unfused_softmax", steps}};
}

struct Documents {
  std::vector<int> lengths;
  int64_t first_index = 0;
  bool scored = false;
};

HostBatch make_rows(const Documents& documents, int64_t vocabulary, std::mt19937& random) {
  HostBatch rows;
  int64_t index = documents.first_index;
  const auto draw = [&] {
    return static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
  };
  for (const int length : documents.lengths) {
    for (int i = 0; i < length; ++i) {
      rows.ids.push_back(draw());
      rows.positions.push_back(i);
      const bool scored = documents.scored && random() % 5 != 0;
      rows.targets.push_back(scored ? draw() : -1);
      rows.loss_weight.push_back(scored ? 1.0f : 0.0f);
      rows.token_index.push_back(index++);
    }
    rows.end_document();
  }
  return rows;
}

/// Three pairs of other lengths, the second with two tokens of padding in the encoder's row.
HostBatch make_batch(int64_t vocabulary) {
  std::mt19937 random(7);
  HostBatch batch = make_rows({{5, 3, 8}, 100, true}, vocabulary, random);
  batch.encoder = std::make_shared<HostBatch>(make_rows({{7, 4, 2, 9}, 40}, vocabulary, random));
  batch.encoder_document = {0, 1, 3};
  return batch;
}

class EncoderDecoderGradient : public testing::TestWithParam<test::TinyModel> {};

TEST_P(EncoderDecoderGradient, EqualsFiniteDifferences) {
  const ModelConfig& model = GetParam().config;
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.positions = 16;
  Engine engine(*device, ops, model, run);
  engine.initialize();
  OpContext context{*device, ops};
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (const Parameter* p : engine.store().parameters()) {
    if (p->weight_gradient) continue;
    double* values = engine.store().master(*p).data<double>();
    for (int64_t i = 0; i < p->shape.elements(); ++i) values[i] += 0.2 * normal(random);
  }
  engine.store().publish_masters(context);

  const HostBatch batch = make_batch(model.vocabulary);
  const auto loss = [&] {  // sum of the token losses, dropout on as in the step
    RankContext rank = engine.context(true, false);
    fill(rank.ops, {rank.loss_state, 0});
    SavedStore nothing(false);
    const Batch uploaded = upload(*device, batch, model.vocabulary, 16);
    SegmentWalk(engine.model().chunks()[0], rank, uploaded, nothing).forward({}, {});
    const Tensor value = rank.ops.allocate(DType::f64, {1}, MemoryTag::other);
    sum_value(rank.ops, {rank.loss_state, value});
    return *value.data<double>();
  };
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  engine.finish_step(1, false);
  for (const Parameter* p : engine.store().parameters())
    test::expect_slope(engine, *p, random, loss);
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderDecoderGradient, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
