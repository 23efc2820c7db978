// 1 rank against N ranks, by comparison with the reference: logits, loss, every gradient, gradient
// norm and the weights after ten steps, in every layout, compared with Hugging Face's numbers.

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors_reader.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 2e-5;

const std::vector<std::string> kCases{"llama", "qwen2", "gpt2", "llama_tied"};

const SafetensorsFile& reference(const std::filesystem::path& path) {
  static std::map<std::string, SafetensorsFile> files;
  return files.try_emplace(path.string(), path).first->second;
}

std::filesystem::path model_of(const std::string& name) {
  return test_data("golden") / (name == "packed_llama" ? "llama" : name) / "model";
}

/// One batch of two rows.
void expect_gradients(const std::string& name, const LayoutCase& c) {
  SCOPED_TRACE(name + " in " + c.name);
  const auto batch = test_data("golden") / name / "golden.safetensors";
  const auto got = probe_layout(model_of(name), batch, false, c.overrides);
  EXPECT_GT(test::expect_gradients_of(got, reference(batch), kLimit), 10);
}

/// The fast pairs of each head (of 16 elements: pairs i and i + 8) are compared like all weights,
/// the slow ones within 1e-4 absolute; ten steps move an element by up to 1e-2.
void expect_key_bias(const Tensor& ours, const Tensor& theirs) {
  const auto fast = [](const Tensor& bias) {
    const Tensor kept = host_tensor(DType::f32, {bias.dim(0) / 2});
    for (int64_t i = 0, to = 0; i < bias.dim(0); ++i)
      if (i % 8 < 4) kept.data<float>()[to++] = bias.data<float>()[i];
    return kept;
  };
  EXPECT_LE(relative_error(fast(ours), fast(theirs)), 1e-4);
  for (int64_t i = 0; i < ours.dim(0); ++i)
    EXPECT_NEAR(ours.data<float>()[i], theirs.data<float>()[i], 1e-4) << i;
}

/// Ten steps of one rank.
const std::map<std::string, Tensor>& trained_alone(const std::string& name) {
  static std::map<std::string, std::map<std::string, Tensor>> runs;
  auto& run = runs[name];
  if (run.empty())
    run = probe_layout(model_of(name), test_data("golden") / name / "train.safetensors", true,
                       test::reference_optimizer());
  return run;
}

/// Ten steps over four rows each: the weights afterwards equal the reference's, where it has them,
/// and one rank's.
void expect_training(const std::string& name, const LayoutCase& c) {
  SCOPED_TRACE(name + " in " + c.name);
  const auto batch = test_data("golden") / name / "train.safetensors";
  std::vector<std::string> overrides = test::reference_optimizer();
  overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
  const auto got = probe_layout(model_of(name), batch, true, overrides);
  const SafetensorsFile& file = reference(batch);
  EXPECT_LE(relative_error(got.at("loss"), file.tensor("loss")), 10 * kLimit);
  EXPECT_LE(relative_error(got.at("grad_norm"), file.tensor("grad_norm")), 10 * kLimit);
  int compared = 0;
  for (const auto& [tensor, values] : trained_alone(name)) {
    if (!tensor.starts_with("final.")) continue;
    ASSERT_TRUE(got.contains(tensor)) << tensor;
    // A key bias would move all scores of a query equally without rotary positions. The slowest
    // pairs of Qwen 2's, with the last frequencies, hardly turn over 64 tokens: their gradient is
    // nearly rounding, which Adam scales up.
    if (name == "qwen2" && tensor.ends_with("k_proj.bias")) {
      expect_key_bias(got.at(tensor), values);
    } else {
      test::expect_trained(tensor, got.at(tensor), values);
    }
    if (file.contains(tensor)) test::expect_trained(tensor, got.at(tensor), file.tensor(tensor));
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

class Bf16Layouts : public testing::TestWithParam<std::string> {};

/// BF16: N ranks are at most 1.5 times as far from the reference as one rank, matrix by matrix. A
/// vector has so few elements that one rank can be near by chance: all vectors together are at most
/// 1.5 times as far, and each of them, like the loss, must meet the limit of one rank.
TEST_P(Bf16Layouts, AreNoFartherFromTheReferenceThanOneRank) {
  const auto batch = test_data("golden") / GetParam() / "golden.safetensors";
  const SafetensorsFile& file = reference(batch);
  const float loss = *file.tensor("loss").data<float>();
  const std::string bf16 = "mixed_precision=bf16_mixed";
  const auto alone = probe_layout(model_of(GetParam()), batch, false, {bf16});
  for (const LayoutCase& c :
       {layout(2, 1, 1, 1, {bf16}), layout(1, 2, 1, 1, {bf16}), layout(1, 1, 2, 1, {bf16}),
        layout(1, 1, 1, 2, {bf16}), layout(2, 2, 2, 1, {bf16, "train.micro_batch_size=1"})}) {
    SCOPED_TRACE(c.name);
    const auto got = probe_layout(model_of(GetParam()), batch, false, c.overrides);
    EXPECT_NEAR(*got.at("loss").data<float>(), loss, 5e-3);
    double vectors = 0, vectors_alone = 0;  // squared
    for (const TensorInfo& info : file.tensors()) {
      if (info.name != "logits" && !info.name.starts_with("grad.")) continue;
      const Tensor expected = file.tensor(info.name);
      const double distance = relative_error(got.at(info.name), expected),
                   alone_distance = relative_error(alone.at(info.name), expected);
      if (expected.rank() > 1) {
        EXPECT_LE(distance, 1.5 * alone_distance) << info.name;
        continue;
      }
      EXPECT_LE(distance, 6e-2) << info.name;
      vectors += distance * distance;
      vectors_alone += alone_distance * alone_distance;
    }
    EXPECT_GT(vectors_alone, 0);
    EXPECT_LE(std::sqrt(vectors), 1.5 * std::sqrt(vectors_alone));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Bf16Layouts, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param; });

/// Gradients summed in BF16 equal those summed in FP32, rounded.
TEST(Bf16Gradients, AreCloseToThoseInFp32) {
  const std::string bf16 = "mixed_precision=bf16_mixed", two = "train.micro_batch_size=1",
                    name = "llama_tied";
  const auto batch = test_data("golden") / name / "golden.safetensors";
  for (LayoutCase c :
       {layout(1, 1, 1, 1, {bf16, two}), layout(1, 1, 1, 2, {bf16, two}),
        layout(2, 1, 2, 1, {bf16, two}),
        layout(1, 1, 2, 1, {bf16, two, "model.pipeline_schedule=zero_bubble"}, "zero_bubble")}) {
    SCOPED_TRACE(c.name);
    const auto wide = probe_layout(model_of(name), batch, false, c.overrides);
    c.overrides.push_back("ddp.grad_reduce_in_fp32=false");
    const auto narrow = probe_layout(model_of(name), batch, false, c.overrides);
    double farthest = 0;
    for (const auto& [tensor, values] : wide) {
      if (!tensor.starts_with("grad.")) continue;
      const double apart = relative_error(narrow.at(tensor), values);
      EXPECT_LE(apart, 1e-2) << tensor;
      farthest = std::max(farthest, apart);
    }
    EXPECT_GT(farthest, 1e-4);
  }
}

/// Documents of odd lengths: each is cut zigzag separately, with padding.
TEST(PackedLayouts, MatchTheReference) {
  for (const LayoutCase& c :
       {layout(1, 2, 1, 1), layout(1, 4, 1, 1), layout(2, 2, 1, 1), layout(1, 2, 1, 2),
        layout(1, 2, 1, 1, {"model.cp_comm_type=all_gather"}, "all_gather"),
        layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a")}) {
    expect_gradients("packed_llama", c);
  }
}

class Gradients : public testing::TestWithParam<LayoutCase> {};
class Training : public testing::TestWithParam<LayoutCase> {};

TEST_P(Gradients, MatchTheReference) {
  for (const std::string& name : kCases) {
    if (GetParam().suits(name)) expect_gradients(name, GetParam());
  }
}

TEST_P(Training, FollowsTheReference) {
  for (const std::string& name : kCases) {
    if (GetParam().suits(name)) expect_training(name, GetParam());
  }
}

const std::string kTwo = "train.micro_batch_size=1";  // two micro-batches where dp is 1
const std::string kVirtual = "model.virtual_pipeline_model_parallel_size=2";

LayoutCase only(LayoutCase c, std::vector<std::string> names) {
  c.only = std::move(names);
  return c;
}

/// Each axis at 2 and 4, each pair, triples and quads, and the settings of an axis.
std::vector<LayoutCase> gradient_cases() {
  const std::string no_sequence = "model.sequence_parallel=false",
                    gather = "model.cp_comm_type=all_gather", exchange = "model.cp_comm_type=a2a",
                    both = "model.cp_comm_type=a2a+p2p",
                    levels = "model.hierarchical_context_parallel_sizes=[2,2]";
  return {
      layout(2, 1, 1, 1),
      layout(4, 1, 1, 1),
      layout(2, 1, 1, 1, {no_sequence}, "whole_sequence"),
      layout(4, 1, 1, 1, {no_sequence}, "whole_sequence"),
      layout(1, 2, 1, 1),
      layout(1, 4, 1, 1),
      layout(1, 2, 1, 1, {gather}, "all_gather"),
      layout(1, 4, 1, 1, {gather}, "all_gather"),
      layout(1, 2, 1, 1, {exchange}, "a2a"),
      only(layout(1, 4, 1, 1, {exchange}, "a2a"), {"llama_tied", "gpt2"}),
      layout(1, 4, 1, 1, {both, levels}, "hierarchical"),
      only(layout(2, 4, 1, 1, {both, levels}, "hierarchical"), {"llama_tied", "gpt2"}),
      layout(1, 2, 1, 1, {"model.cp_comm_type=[p2p,all_gather,a2a,p2p]"}, "by_layer"),
      layout(1, 1, 2, 1),
      layout(1, 1, 2, 1, {kTwo}, "two_batches"),
      layout(1, 1, 4, 1, {kTwo}, "fewer_batches_than_stages"),
      layout(1, 1, 2, 1, {kTwo, kVirtual}, "interleaved"),
      layout(1, 1, 2, 1, {kTwo, "model.pipeline_schedule=gpipe"}, "gpipe"),
      layout(1, 1, 2, 1, {kTwo, "model.pipeline_schedule=zero_bubble"}, "zero_bubble"),
      layout(1, 1, 2, 1, {kTwo, "model.num_layers_in_first_pipeline_stage=1"}, "uneven"),
      layout(1, 1, 2, 1, {kTwo, "model.pipeline_model_parallel_layout=Ett|ttL"}, "layout_text"),
      layout(1, 1, 4, 1, {kTwo, "model.pipeline_model_parallel_layout=Ett||t|tL"}, "empty_stage"),
      layout(1, 1, 1, 2),
      layout(2, 2, 1, 1),
      layout(2, 1, 2, 1, {kTwo}),
      layout(2, 1, 1, 2),
      layout(1, 2, 2, 1, {kTwo}),
      layout(1, 2, 1, 2),
      layout(1, 1, 2, 2),
      layout(2, 2, 2, 1, {kTwo}),
      layout(2, 2, 1, 2),
      layout(2, 1, 2, 2),
      layout(1, 2, 2, 2),
      layout(4, 1, 2, 1, {kTwo}),
      layout(2, 1, 2, 1, {kTwo, kVirtual}, "interleaved"),
      layout(2, 1, 2, 2, {"dist.use_tp_pp_dp_mapping=true"}, "other_order"),
      layout(1, 2, 1, 2, {"ddp.num_distributed_optimizer_instances=2"}, "instances"),
  };
}

std::vector<LayoutCase> training_cases() {
  const std::string replicated = "ddp.use_distributed_optimizer=false";
  // The cases with the reference's weights.
  const auto stored = [](LayoutCase c) { return only(std::move(c), {"llama", "gpt2"}); };
  return {
      stored(layout(1, 2, 1, 1)),
      stored(layout(1, 4, 1, 1)),
      stored(layout(1, 1, 2, 1, {kTwo})),
      stored(layout(1, 1, 4, 1, {kTwo})),
      stored(layout(2, 2, 1, 1)),
      stored(layout(2, 1, 2, 1, {kTwo})),
      stored(layout(1, 2, 2, 1, {kTwo})),
      stored(
          layout(1, 4, 1, 1,
                 {"model.cp_comm_type=a2a+p2p", "model.hierarchical_context_parallel_sizes=[2,2]"},
                 "hierarchical")),
      layout(1, 1, 1, 2),
      layout(1, 1, 1, 4),
      layout(1, 1, 1, 4, {replicated}, "replicated"),
      layout(1, 1, 1, 4, {"ddp.num_distributed_optimizer_instances=2"}, "instances"),
      layout(2, 1, 1, 1),
      layout(4, 1, 1, 1),
      layout(2, 1, 1, 2),
      layout(1, 2, 1, 2),
      layout(1, 1, 2, 2, {kTwo}),
      layout(2, 2, 2, 1, {kTwo}),
      layout(2, 1, 2, 2, {kTwo, kVirtual}, "interleaved"),
      layout(1, 2, 1, 2, {"ddp.num_distributed_optimizer_instances=2"}, "instances"),
  };
}

std::string name_of(const testing::TestParamInfo<LayoutCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Gradients, testing::ValuesIn(gradient_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Layouts, Training, testing::ValuesIn(training_cases()), name_of);

}  // namespace
}  // namespace viaduct
