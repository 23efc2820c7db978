// FP8 and FP4 products in every layout, with FP32 tensors: layouts then differ by the order of sums
// alone, and an element here and there is rounded to its other neighbour. Scales made from a rank's
// part of a tensor would round nearly all elements otherwise.

#include <gtest/gtest.h>

#include <cmath>

#include "probe/probe_setup.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/instruction_set.h"
#include "support/layout_run.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;

/// Gradients of the golden GPT-2, micro-batch by micro-batch of one row.
std::map<std::string, Tensor> gradients(const Quantization& products, const LayoutCase& c) {
  const auto folder = test::test_data("golden") / "gpt2";
  std::vector<std::string> overrides = c.overrides;
  for (const std::string& isa : test::instruction_set_override()) overrides.push_back(isa);
  overrides.insert(overrides.end(), {"train.micro_batch_size=1", "dist.threads_per_rank=1",
                                     "dist.distributed_timeout_minutes=1"});
  ProbeSetup setup = prepare_probe({.model = folder / "model",
                                    .batch = folder / "golden.safetensors",
                                    .overrides = overrides,
                                    .train = false});
  setup.settings.run.layers.precision.products = products;
  std::map<std::string, Tensor> dump;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    const RankDevice rank = make_rank_device(setup.config.dist);
    auto values = run_probe(*rank.device, rank.ops, setup.model, *setup.weights, *setup.batch,
                            setup.settings, std::move(world));
    if (leads) dump = std::move(values);
  });
  std::erase_if(dump, [](const auto& entry) { return !entry.first.starts_with("grad."); });
  return dump;
}

/// ‖a − b‖ / ‖b‖ over all gradients.
double distance_of(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  double difference = 0, size = 0;
  for (const auto& [name, values] : b) {
    const float *left = a.at(name).data<float>(), *right = values.data<float>();
    for (int64_t i = 0; i < values.elements(); ++i) {
      difference += std::pow(double{left[i]} - right[i], 2);
      size += double{right[i]} * right[i];
    }
  }
  return std::sqrt(difference / size);
}

void expect_one_rank(const Quantization& products, const std::vector<LayoutCase>& layouts) {
  const auto alone = gradients(products, layout(1, 1, 1, 1));
  ASSERT_GT(alone.size(), 10u);
  const double of_format = distance_of(alone, gradients({}, layout(1, 1, 1, 1)));
  EXPECT_GT(of_format, 0.02);
  for (const LayoutCase& c : layouts) {
    const double distance = distance_of(gradients(products, c), alone);
    EXPECT_LT(distance, of_format / 10) << c.name << ", of " << of_format;
    testing::Test::RecordProperty(c.name, std::to_string(distance));
  }
}

TEST(Fp8Layouts, CurrentScaling) {
  expect_one_rank({Scaling::tensor, DType::e4m3, DType::e5m2},
                  {layout(2, 1, 1, 1), layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "seq"),
                   layout(1, 2, 1, 1), layout(1, 1, 2, 1), layout(1, 1, 1, 2)});
}

// Attention's operands have scales over tensor and context ranks, and its output too. Where these
// add up otherwise, an element is rounded otherwise here and there, which attention amplifies
// (unit/nn/attention_codes_test.cpp has it alone); other axes leave all bits alone.
TEST(Fp8Layouts, Attention) {
  for (const bool attended : {false, true}) {
    expect_one_rank({Scaling::tensor, DType::e4m3, DType::e5m2, true, true, attended},
                    {layout(1, 1, 2, 1), layout(1, 1, 1, 2),
                     layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a")});
  }
}

// Groups of 32 features, of 32 tokens of a row: context ranks would cut the row.
TEST(Fp8Layouts, Mxfp8) {
  expect_one_rank({Scaling::mx, DType::e4m3, DType::e4m3},
                  {layout(2, 1, 1, 1), layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "seq"),
                   layout(1, 1, 2, 1), layout(1, 1, 1, 2)});
}

// Groups of 16 features, of 16 tokens; rounding draws the same bits for an element in all of them.
TEST(Fp8Layouts, Nvfp4) {
  expect_one_rank({Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2},
                  {layout(2, 1, 1, 1), layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "seq"),
                   layout(1, 1, 2, 1), layout(1, 1, 1, 2)});
}

// Groups of 128 features, which two tensor ranks of this model would cut.
TEST(Fp8Layouts, Blockwise) {
  expect_one_rank({Scaling::blocks, DType::e4m3, DType::e5m2},
                  {layout(1, 1, 2, 1), layout(1, 1, 1, 2)});
}

}  // namespace
}  // namespace viaduct
