// Operations of an image, counted once more over the matrices of the model itself.

#include <gtest/gtest.h>

#include "device/device.h"
#include "model/flops.h"
#include "model/model.h"
#include "nn/adapter_settings.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

ModelConfig small() {
  ModelConfig config = test::tiny_model("llama");
  VisionConfig& v = config.vision;
  v.layers = 3, v.hidden = 8, v.feed_forward = 10, v.heads = 2;
  v.image_size = 7, v.patch_size = 2;
  v.feature_layers = {2, 1};
  return config;
}

TEST(ImageFlops, EachMatrixMultipliesTheRowsThatPassIt) {
  const ModelConfig config = small();
  const VisionConfig& v = config.vision;
  const auto device = make_sim_device();  // only structure
  const auto model = build_model(*device, config, {.precision = precision_recipe("fp32")}, 1);
  double products = 0;
  for (const Parameter* p : model->parameters()) {
    if (!p->trained || !p->path.starts_with("vision.") || p->shape.rank() != 2) continue;
    if (p->path == "vision.patches.positions") continue;
    const bool patches = p->path.starts_with("vision.patches"),
               projector = p->path.starts_with("vision.projector");
    const int64_t rows = patches ? v.patches() : projector ? v.rows() : v.tokens();
    products += static_cast<double>(rows * p->shape.elements());
  }
  const double pairs = 2.0 * 2 * static_cast<double>(v.hidden * v.tokens() * v.tokens());
  EXPECT_DOUBLE_EQ(image_flops(config), 6 * (products + pairs));
}

TEST(ImageFlops, AFrozenTowerCountsItsForward) {
  ModelConfig config = small();
  const double all = image_flops(config);
  config.vision.freeze_tower = true;
  const double frozen = image_flops(config);
  config.vision.freeze_projector = true;
  EXPECT_LT(frozen, all);
  EXPECT_LT(image_flops(config), frozen);
  EXPECT_DOUBLE_EQ(image_flops(config), all / 3);  // a forward is a third of both passes
  EXPECT_EQ(image_flops(test::tiny_model("llama")), 0);
}

TEST(ImageFlops, AdaptersLeaveOutTheGradientsOfWeights) {
  ModelConfig config = small();
  const VisionConfig& v = config.vision;
  AdapterSettings adapters;
  adapters.modules["vision_tower.encoder.layers.0.mlp.fc1"] = {3, 1, false};
  config.vision.freeze_projector = true;
  const double h = static_cast<double>(v.hidden), tokens = static_cast<double>(v.tokens()),
               out = static_cast<double>(config.hidden);
  const double patches = static_cast<double>(v.patches() * v.channels * 4) * h,
               blocks = 2 * tokens * (4 * h * h + 2 * h * 10), pairs = 2 * 2 * h * tokens * tokens,
               projector = static_cast<double>(v.rows()) * out * (2 * h + out),
               added = tokens * 3 * (h + 10);
  EXPECT_DOUBLE_EQ(image_flops(config, adapters),
                   2 * patches + 4 * blocks + 6 * pairs + 4 * projector + 6 * added);
  // Of the text model alone: images have their forward.
  adapters.modules = {{"model.layers.0.mlp.up_proj", {3, 1, false}}};
  config.vision.freeze_tower = true;
  EXPECT_DOUBLE_EQ(image_flops(config, adapters), 2 * (patches + blocks + pairs + projector));
}

}  // namespace
}  // namespace viaduct
