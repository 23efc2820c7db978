// The backward of models with images compared with finite differences, in FP64: patches, class
// token, positions, blocks of a tower up to the last that is read, features of several layers, the
// projector, and what stands in place of tokens.

#include <gtest/gtest.h>

#include <random>

#include "engine/engine.h"
#include "engine/image_rows.h"
#include "model/segment_walk.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "support/finite_differences.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

VisionConfig tiny_tower(TowerKind kind) {
  VisionConfig v;
  v.tower = kind;
  v.layers = 3, v.hidden = 8, v.feed_forward = 10, v.heads = 2;
  v.channels = 2, v.image_size = 5, v.patch_size = 2;  // a line of pixels is in no patch
  v.activation = kind == TowerKind::clip ? ActivationKind::quick_gelu : ActivationKind::gelu_tanh;
  v.feature_layers = {2};
  v.image_token = 4;
  return v;
}

std::vector<test::TinyModel> variants() {
  ModelConfig clip = test::tiny_model("llama");
  clip.vision = tiny_tower(TowerKind::clip);
  ModelConfig siglip = test::tiny_model("qwen2");
  siglip.vision = tiny_tower(TowerKind::siglip);
  siglip.vision.feature_layers = {3, 0, 1, 3};  // also before the first block, and one twice
  siglip.vision.drops_first = false, siglip.vision.projector_bias = false;
  siglip.vision.pooling_head = true;
  ModelConfig scaled = test::tiny_model("gemma2");  // tokens are scaled, and features are not
  scaled.vision = tiny_tower(TowerKind::clip);
  scaled.vision.drops_first = false;
  scaled.padding_token = -1;  // whose gradient is left out
  ModelConfig projector = clip;
  projector.vision.freeze_tower = projector.vision.freeze_text = true;
  ModelConfig tower = siglip;
  tower.vision.freeze_projector = tower.vision.freeze_text = true;
  ModelConfig pooled = test::tiny_model("qwen2");  // a window that is shorter than an image
  pooled.vision = tiny_tower(TowerKind::siglip);
  pooled.vision.image_size = 9, pooled.vision.feature_layers = {3};
  pooled.vision.projector = ProjectorKind::pooled, pooled.vision.pooled_side = 2;
  pooled.vision.drops_first = false, pooled.vision.sees_ahead = true;
  return {{"clip", clip},
          {"pooled", pooled},
          {"siglip", siglip},
          {"scaled_embeddings", scaled},
          {"projector_alone", projector},
          {"tower_alone", tower}};
}

/// Rows of 12 tokens with one image, none and one.
HostBatch make_batch(const ModelConfig& model, std::mt19937& random) {
  const VisionConfig& v = model.vision;
  constexpr int kLength = 12;
  HostBatch batch;
  for (int row = 0; row < 3; ++row) {
    for (int t = 0; t < kLength; ++t) {
      const bool image = row != 1 && t >= row && t < row + v.rows();
      const auto drawn = static_cast<int32_t>(random() % static_cast<unsigned>(model.vocabulary));
      const auto other = static_cast<int32_t>(v.image_token == 0 ? 1 : 0);
      const auto token = static_cast<int32_t>(v.image_token);
      batch.ids.push_back(image ? token : drawn == token ? other : drawn);
      batch.positions.push_back(t);
      const bool scored = random() % 5 != 0;
      batch.targets.push_back(scored ? drawn : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back(row * kLength + t);
    }
    batch.end_document();
  }
  std::normal_distribution<float> normal;
  batch.images = {2, v.channels, v.image_size, v.image_size, {}};
  batch.images.pixels.resize(static_cast<size_t>(2 * v.channels * v.image_size * v.image_size));
  for (float& pixel : batch.images.pixels) pixel = normal(random);
  return batch;
}

class ImagesGradient : public testing::TestWithParam<test::TinyModel> {};

TEST_P(ImagesGradient, EqualsFiniteDifferences) {
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
    if (!p->trained || p->shape.rank() > 1) continue;
    double* values = engine.store().master(*p).data<double>();
    for (int64_t i = 0; i < p->shape.elements(); ++i) values[i] += 0.2 * normal(random);
  }
  engine.store().publish_masters(context);

  const HostBatch batch = make_batch(model, random);
  const auto loss = [&] {  // sum of the token losses
    RankContext rank = engine.context(true, false);
    fill(rank.ops, {rank.loss_state, 0});
    SavedStore nothing(false);
    const Batch uploaded = upload(*device, batch, model.vocabulary, 16, engine.batch_place());
    SegmentWalk(engine.model().chunks()[0], rank, uploaded, nothing).forward({}, {});
    const Tensor value = rank.ops.allocate(DType::f64, {1}, MemoryTag::other);
    sum_value(rank.ops, {rank.loss_state, value});
    return *value.data<double>();
  };
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  engine.finish_step(1, false);
  int compared = 0;
  for (const Parameter* p : engine.store().parameters()) {
    if (!p->trained) continue;
    test::expect_slope(engine, *p, random, loss);
    ++compared;
  }
  EXPECT_GT(compared, 1);
}

INSTANTIATE_TEST_SUITE_P(Models, ImagesGradient, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
