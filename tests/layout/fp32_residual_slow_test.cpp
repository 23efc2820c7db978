// A residual stream with a large mean: in BF16 it loses the digits that its norms need, in FP32
// (model.fp32_residual_connection) it keeps them, in every layout. The model is GPT-2 with position
// embeddings of 100; weights are BF16 values, so that FP64 and BF16 run the same model.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "generate/generator.h"
#include "model/hf_config.h"
#include "support/golden.h"
#include "support/instruction_set.h"
#include "support/layout_run.h"
#include "support/op_testing.h"
#include "support/temporary_folder.h"
#include "support/tensor_ranks.h"

namespace viaduct {
namespace {

using test::distance;
using test::layout;
using test::LayoutCase;
using test::relative_error;
using test::test_data;
using Dump = std::map<std::string, Tensor>;

constexpr double kMean = 100;
constexpr int kBlocks = 4;
constexpr double kEps = 0x1p-8;  // maximum rounding error of BF16
// Number of successive roundings to BF16 on the longest path from an id to the gradient of its
// embedding. A block: norm, product, attention or activation, twice; back, the gradients of branch,
// middle, product and norm, twice. The ends: last norm and logits, and their gradients. They are
// independent of each other: squares add up.
constexpr int kRoundings = kBlocks * (2 * 3 + 2 * 4) + 2 + 2;
const double kLimit = std::sqrt(kRoundings) * kEps;

const std::string kBf16 = "mixed_precision=bf16_mixed",
                  kFp32Stream = "model.fp32_residual_connection=true";

class LargeMean : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::TemporaryFolder>();
    const auto golden = test_data("golden/gpt2/model");
    std::filesystem::copy_file(golden / "config.json", folder_->path() / "config.json");
    const SafetensorsFile file(golden / "model.safetensors");
    Dump weights;
    for (const TensorInfo& info : file.tensors()) {
      const Tensor weight = test::converted(file.tensor(info.name), DType::f32);
      const bool positions = info.name.ends_with("wpe.weight");
      for (int64_t i = 0; i < weight.elements(); ++i) {
        auto& value = weight.data<float>()[i];
        value = positions ? kMean : static_cast<float>(bfloat16(value));
      }
      weights[info.name] = weight;
    }
    write_safetensors(folder_->path() / "model.safetensors", weights);
    exact_ = run({"mixed_precision=fp64"});
  }
  static void TearDownTestSuite() {
    folder_.reset();
    exact_.clear();
  }

  static Dump run(const std::vector<std::string>& overrides) {
    return test::probe_layout(folder_->path(), test_data("golden/gpt2/golden.safetensors"), false,
                              overrides);
  }
  /// Relative L2 error of the gradient with the largest error.
  static double worst(const Dump& dump) {
    double error = 0;
    for (const auto& [name, gradient] : exact_) {
      if (!name.starts_with("grad.")) continue;
      const double apart = relative_error(dump.at(name), gradient);
      error = apart <= error ? error : apart;  // NaN stays
    }
    return error;
  }

  static std::unique_ptr<test::TemporaryFolder> folder_;
  static Dump exact_;
};

std::unique_ptr<test::TemporaryFolder> LargeMean::folder_;
Dump LargeMean::exact_;

// BF16 values near 100 are 0.5 apart, and the embeddings of the tokens differ by less.
TEST_F(LargeMean, Bf16LosesTheTokens) {
  EXPECT_GT(worst(run({kBf16})), 0.5);
}

TEST_F(LargeMean, AnFp32StreamKeepsThemInEveryLayout) {
  const std::string two = "train.micro_batch_size=1",
                    chunks = "model.virtual_pipeline_model_parallel_size=2",
                    zero_bubble = "model.pipeline_schedule=zero_bubble";
  for (LayoutCase c :
       {layout(1, 1, 1, 1, {}, "one"), layout(2, 1, 1, 1),
        layout(2, 1, 1, 1, {"comm_overlap.tp_comm_overlap=false"}, "not_hidden"),
        layout(2, 1, 1, 1, {"model.sequence_parallel=false"}, "whole_sequence"), layout(1, 2, 1, 1),
        layout(1, 1, 1, 2), layout(1, 1, 2, 1, {two}),
        layout(1, 1, 2, 1, {two, chunks}, "interleaved"),
        layout(1, 1, 2, 1, {two, zero_bubble}, "zero_bubble"), layout(2, 1, 2, 1, {two}),
        layout(1, 1, 1, 1, {"model.bias_dropout_fusion=false"}, "biases_apart")}) {
    SCOPED_TRACE(c.name);
    c.overrides.insert(c.overrides.end(), {kBf16, kFp32Stream});
    const Dump got = run(c.overrides);
    EXPECT_LE(worst(got), kLimit);
    EXPECT_LE(relative_error(got.at("logits"), exact_.at("logits")), kLimit);
  }
}

TEST_F(LargeMean, GenerationKeepsThem) {
  const auto config =
      read_hf_config(read_file(folder_->path() / "config.json"), "GPT-2 with a large mean");
  const auto logits = [&](const PrecisionRecipe& recipe) {
    const auto device = make_cpu_device(1);
    const OpTable ops = cpu_ops(test::instruction_set());
    const LayerSettings layers{.precision = recipe};
    const Parallelism one_rank;
    const MemorySettings memory;
    Generator generator(*device, ops, config, {layers, one_rank, memory, 8});
    OpContext context = generator.context();
    load_parameters(context, generator.store(), SafetensorsFolder(folder_->path()), config);
    using Ids = std::vector<std::vector<int32_t>>;
    generator.feed(Ids{{3, 14, 15, 92}});  // from the cache afterwards
    const Tensor next = generator.feed(Ids{{65}});
    return std::vector<double>(next.data<float>(), next.data<float>() + next.elements());
  };
  const std::vector<double> exact = logits(precision_recipe("fp64"));
  EXPECT_LE(distance(logits(precision_recipe("bf16_mixed", true)), exact), kLimit);
  EXPECT_GT(distance(logits(precision_recipe("bf16_mixed")), exact), 4 * kLimit);
}

// Messages between stages in BF16 still round the stream.
TEST_F(LargeMean, MessagesMayRoundIt) {
  const LayoutCase stages = layout(1, 1, 2, 1, {kBf16, kFp32Stream, "model.pipeline_dtype=bf16"});
  EXPECT_GT(worst(run(stages.overrides)), 2 * kLimit);
}

}  // namespace
}  // namespace viaduct
