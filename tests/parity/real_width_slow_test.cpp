// A model of real vocabulary and width in FP32 compared with the same weights in FP64: gradients
// keep FP32's precision with contracted dims and rows of tens of thousands, which tiny models
// cannot test.

#include <gtest/gtest.h>

#include <cmath>

#include "support/tiny_models.h"
#include "support/training_run.h"

namespace viaduct {
namespace {

ModelConfig wide_llama() {
  ModelConfig c = test::small_llama();
  c.hidden = 512, c.feed_forward = 1536, c.heads = 8, c.kv_heads = 4, c.head_dim = 64;
  c.rotary.width = 64, c.attention_scale = 0.125;
  c.vocabulary = 50304, c.max_positions = 32;
  c.tied_embeddings = true;
  return c;
}

/// |a − b| / |b|.
double distance(const Tensor& a, const Tensor& b) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < b.elements(); ++i) {
    const double x = a.data<float>()[i], y = b.data<double>()[i];
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(difference / size);
}

TEST(RealWidth, Fp32GradientsAreThoseOfFp64) {
  test::TrainingRun run;
  run.model = wide_llama();
  run.rows = run.rows_per_batch = 1;
  run.length = 12;
  test::StepTrainer fp32(run);
  run.recipe = "fp64";
  test::StepTrainer fp64(run);
  const ParameterStore &narrow = fp32.engine().store(), &wide = fp64.engine().store();
  const std::vector<const Parameter*>&a = narrow.parameters(), &b = wide.parameters();
  ASSERT_EQ(a.size(), b.size());
  for (size_t p = 0; p < a.size(); ++p) {
    const Tensor from = narrow.weight(*a[p]), to = wide.weight(*b[p]);
    for (int64_t i = 0; i < from.elements(); ++i) to.data<double>()[i] = from.data<float>()[i];
  }
  const double loss = fp32.step(false).loss, exact = fp64.step(false).loss;
  EXPECT_NEAR(loss, exact, 1e-6 * exact);
  for (size_t p = 0; p < a.size(); ++p)
    EXPECT_LE(distance(narrow.main_gradient(*a[p]), wide.main_gradient(*b[p])), 2e-6) << a[p]->path;
}

}  // namespace
}  // namespace viaduct
