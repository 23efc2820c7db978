// Operations of a step with an encoder, counted once more over the matrices of the model itself.

#include <gtest/gtest.h>

#include "device/device.h"
#include "model/flops.h"
#include "model/model.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

TEST(EncoderFlops, EachMatrixMultipliesTheTokensThatPassIt) {
  ModelConfig config = test::tiny_t5();
  config.encoder.layers = 3;
  config.encoder.row_length = 10;
  constexpr double kInputs = 10, kOutputs = 8;
  const auto device = make_sim_device();  // only structure
  const auto model = build_model(*device, config, {.precision = precision_recipe("fp32")}, 1);
  double products = 0;
  for (const Layer& layer : model->chunks().front().layers) {
    for (const auto& segment : layer.segments) {
      if (segment->name() == "embedding") continue;
      for (const Parameter* p : segment->parameters()) {
        if (!p->multiplied) continue;
        const bool of_inputs =
            layer.of_encoder || p->path.find("cross_attention.key_value") != std::string::npos;
        const int64_t rows = p->vocabulary ? config.vocabulary : p->shape[0];
        products += (of_inputs ? kInputs : kOutputs) * static_cast<double>(rows * p->shape[1]);
      }
    }
  }
  const FlopCount count = training_flops(flop_sizes(config), 1, static_cast<int64_t>(kOutputs));
  EXPECT_DOUBLE_EQ(count.token_part, 6 * products);

  // Pairs: all of the encoder's, half of the decoder's own, and each of the decoder's tokens with
  // each of the encoder's.
  const double widths = 2.0 * static_cast<double>(config.heads * config.head_dim);
  const double layers = static_cast<double>(config.layers);
  EXPECT_DOUBLE_EQ(
      count.attention_part,
      6 * widths *
          (3 * kInputs * kInputs + layers * kOutputs * kOutputs / 2 + layers * kOutputs * kInputs));
}

}  // namespace
}  // namespace viaduct
