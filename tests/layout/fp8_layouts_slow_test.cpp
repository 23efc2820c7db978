// FP8 and FP4 products in every layout, with FP32 tensors: layouts then differ only by the order of
// sums, and a few elements are rounded to their other neighbour. Scales made from a rank's part of
// a tensor would change the rounding of nearly all elements.

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

/// Gradients of a golden model, or of an adapter on the golden Llama, in micro-batches of one row,
/// or as the layout says.
std::map<std::string, Tensor> gradients(const Quantization& products, const LayoutCase& c,
                                        const std::string& model = "gpt2") {
  const auto folder = test::test_data("golden") / model;
  // Of an adapter's model.
  const std::map<std::string, std::string> models{{"lora_llama", "llama"},
                                                  {"dora_llama", "llama"},
                                                  {"lora_gpt2", "gpt2"},
                                                  {"lora_experts", "mixtral"}};
  const bool adapts = models.contains(model);
  std::vector<std::string> overrides = c.overrides;
  if (adapts) overrides.push_back("peft.adapter=" + (folder / "adapter").string());
  for (const std::string& isa : test::instruction_set_override()) overrides.push_back(isa);
  overrides.insert(overrides.begin(), {"train.micro_batch_size=1", "dist.threads_per_rank=1",
                                       "dist.distributed_timeout_minutes=1"});
  const std::string& name = adapts ? models.at(model) : model;
  const auto base = test::test_data("golden") / name;
  ProbeSetup setup = prepare_probe({.model = base / "model",
                                    .batch = folder / "golden.safetensors",
                                    .overrides = overrides,
                                    .train = false});
  setup.settings.run.layers.precision.products = products;
  // Data ranks share an expert's rows; attention's scales cover only their own micro-batches.
  if (name == "mixtral") setup.settings.run.layers.precision.plain_layers = {"attention"};
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

void expect_one_rank(const Quantization& products, const std::vector<LayoutCase>& layouts,
                     const std::string& model = "gpt2", double share = 0.1) {
  SCOPED_TRACE(model);
  const auto alone = gradients(products, layout(1, 1, 1, 1), model);
  ASSERT_GT(alone.size(), 10u);
  const double of_format = distance_of(alone, gradients({}, layout(1, 1, 1, 1), model));
  EXPECT_GT(of_format, 0.02);
  for (const LayoutCase& c : layouts) {
    const double distance = distance_of(gradients(products, c, model), alone);
    EXPECT_LT(distance, share * of_format) << c.name << ", of " << of_format;
    testing::Test::RecordProperty(c.name, std::to_string(distance));
  }
}

TEST(Fp8Layouts, CurrentScaling) {
  expect_one_rank({Scaling::tensor, DType::e4m3, DType::e5m2},
                  {layout(2, 1, 1, 1), layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "seq"),
                   layout(1, 2, 1, 1), layout(1, 1, 2, 1), layout(1, 1, 1, 2)});
}

// Frozen weights under adapters: what adapters add and its gradients are not quantized.
TEST(Fp8Layouts, CurrentScalingUnderAdapters) {
  const Quantization products{Scaling::tensor, DType::e4m3, DType::e5m2};
  const LayoutCase sequence = layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "seq"),
                   shards = layout(1, 1, 1, 2,
                                   {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                                   "weight_shards");
  expect_one_rank(products, {layout(1, 1, 2, 1), shards}, "lora_llama");
  // Sums have another order, and what is rounded differently then is a third of the difference to
  // unquantized products (without the adapter a tenth): its terms are as large as the weights.
  expect_one_rank(products, {layout(2, 1, 1, 1), sequence, layout(1, 2, 1, 1)}, "lora_llama", 0.4);
  expect_one_rank(products, {sequence, layout(1, 1, 1, 2)}, "dora_llama");
}

// Scales of few elements, which no rank's part changes: sizes are multiples of the groups.
TEST(Fp8Layouts, GroupsUnderAdapters) {
  for (const Quantization& products : {Quantization{Scaling::mx, DType::e4m3, DType::e4m3},
                                       Quantization{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}})
    expect_one_rank(products,
                    {layout(2, 1, 1, 1), layout(1, 1, 1, 2),
                     layout(1, 1, 2, 1, {"model.pipeline_schedule=zero_bubble"}, "zero_bubble")},
                    "lora_gpt2");
}

// The scales of attention's operands, and of its output, cover tensor and context ranks. Where sums
// have another order, a few elements are rounded differently, which attention amplifies
// (unit/nn/attention_codes_test.cpp tests it alone); other axes change no bit.
TEST(Fp8Layouts, Attention) {
  for (const bool attended : {false, true}) {
    expect_one_rank({Scaling::tensor, DType::e4m3, DType::e5m2, true, true, attended},
                    {layout(1, 1, 2, 1), layout(1, 1, 1, 2),
                     layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a")});
  }
}

// Groups of 32 features, or of 32 tokens of a row: context ranks would cut the row.
TEST(Fp8Layouts, Mxfp8) {
  expect_one_rank({Scaling::mx, DType::e4m3, DType::e4m3},
                  {layout(2, 1, 1, 1), layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "seq"),
                   layout(1, 1, 2, 1), layout(1, 1, 1, 2)});
}

// Groups of 16 features, or of 16 tokens; rounding uses the same random bits for an element in all
// layouts.
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

/// The golden Mixtral: an expert's rows come from all ranks that exchange tokens. Without data
/// ranks a micro-batch has both rows of the batch, as these ranks have together.
std::map<std::string, Tensor> expert_gradients(const Quantization& products, LayoutCase c,
                                               const std::string& model = "mixtral") {
  if (c.name.find("dp") == std::string::npos) c.overrides.push_back("train.micro_batch_size=2");
  return gradients(products, c, model);
}

void expect_experts_of(const LayoutCase& reference, const Quantization& products,
                       const std::vector<LayoutCase>& layouts,
                       const std::string& model = "mixtral") {
  const auto expected = expert_gradients(products, reference, model);
  ASSERT_GT(expected.size(), 30u);
  const double of_format = distance_of(expected, expert_gradients({}, reference, model));
  EXPECT_GT(of_format, 0.02);
  for (const LayoutCase& c : layouts) {
    const double distance = distance_of(expert_gradients(products, c, model), expected);
    EXPECT_LT(distance, of_format / 10) << c.name << ", of " << of_format;
    testing::Test::RecordProperty(c.name, std::to_string(distance));
  }
}

void expect_experts_of_one_rank(const Quantization& products,
                                const std::vector<LayoutCase>& layouts,
                                const std::string& model = "mixtral") {
  expect_experts_of(layout(1, 1, 1, 1), products, layouts, model);
}

LayoutCase experts(int ep, int etp, LayoutCase c, std::vector<std::string> further = {}) {
  c.overrides.push_back("model.expert_model_parallel_size=" + std::to_string(ep));
  c.overrides.push_back("model.expert_tensor_parallel_size=" + std::to_string(etp));
  c.overrides.insert(c.overrides.end(), further.begin(), further.end());
  c.name += "_ep" + std::to_string(ep) + "_etp" + std::to_string(etp);
  return c;
}

const std::vector<std::string> kByDomain{"model.moe_token_dispatcher_type=flex",
                                         "model.moe_flex_dispatcher_backend=hierarchical",
                                         "dist.nvlink_domain_size=1"};

// An expert's scale covers its rows on all ranks and all of its features. Where attention or an
// exchange adds in another order, some elements are rounded to their other neighbours; such layouts
// are compared with each other.
TEST(Fp8Layouts, ExpertsCurrentScaling) {
  const Quantization products{Scaling::tensor, DType::e4m3, DType::e5m2};
  const std::vector<std::string> gathered{"model.moe_token_dispatcher_type=allgather"};
  expect_experts_of_one_rank(products,
                             {experts(2, 1, layout(1, 1, 1, 2)), experts(2, 1, layout(1, 2, 1, 1)),
                              experts(1, 1, layout(1, 1, 2, 1))});
  expect_experts_of(experts(1, 1, layout(2, 1, 1, 1)), products,
                    {experts(1, 2, layout(2, 1, 1, 1)), experts(2, 2, layout(2, 1, 1, 2))});
  expect_experts_of(experts(2, 1, layout(1, 1, 1, 2), gathered), products,
                    {experts(2, 1, layout(1, 1, 1, 2), kByDomain)});
}

// Groups of tokens restart with each expert, and senders come in the order of their tokens.
TEST(Fp8Layouts, ExpertsMxfp8) {
  expect_experts_of_one_rank(
      {Scaling::mx, DType::e4m3, DType::e4m3},
      {experts(2, 1, layout(1, 1, 1, 2)), experts(1, 2, layout(2, 1, 1, 1)),
       experts(2, 1, layout(2, 1, 1, 1)), experts(1, 1, layout(1, 1, 2, 1))});
}

// Frozen experts: a scale, too, is that of an expert's whole weight, on all of its ranks.
TEST(Fp8Layouts, ExpertsUnderAdapters) {
  const LayoutCase shards = layout(
      1, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"}, "weight_shards");
  for (const Quantization& products : {Quantization{Scaling::tensor, DType::e4m3, DType::e5m2},
                                       Quantization{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}})
    expect_experts_of_one_rank(
        products,
        {experts(2, 1, layout(1, 1, 1, 2)), experts(2, 1, shards),
         experts(1, 2, layout(2, 1, 1, 1)), experts(2, 2, layout(2, 1, 1, 2))},
        "lora_experts");
}

TEST(Fp8Layouts, ExpertsBlockwise) {
  expect_experts_of_one_rank(
      {Scaling::blocks, DType::e4m3, DType::e5m2},
      {experts(2, 1, layout(1, 1, 1, 2)), experts(1, 1, layout(1, 1, 2, 1))});
}

TEST(Fp8Layouts, ExpertsNvfp4) {
  expect_experts_of_one_rank({Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2},
                             {experts(2, 1, layout(1, 1, 1, 2)), experts(1, 2, layout(2, 1, 1, 1)),
                              experts(2, 1, layout(2, 1, 1, 1))});
}

}  // namespace
}  // namespace viaduct
