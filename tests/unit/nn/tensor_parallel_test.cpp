// Whole models on two and four tensor ranks against one: loss, logits and every gradient, with and
// without sequence parallelism.

#include <gtest/gtest.h>

#include "support/tensor_ranks.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::distance;
using test::TensorOutcome;
using test::TensorRun;

void expect_same(const TensorOutcome& actual, const TensorOutcome& expected, double bound) {
  EXPECT_LE(distance({actual.loss}, {expected.loss}), bound);
  EXPECT_LE(distance(actual.logits, expected.logits), bound);
  EXPECT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    ASSERT_TRUE(actual.gradients.contains(name)) << name;
    EXPECT_LE(distance(actual.gradients.at(name), gradient), bound) << name;
  }
}

class TensorParallel : public testing::TestWithParam<test::TinyModel> {};
INSTANTIATE_TEST_SUITE_P(Families, TensorParallel, testing::ValuesIn(test::tiny_models()),
                         [](const auto& info) { return info.param.name; });

TEST_P(TensorParallel, EqualsOneRank) {
  for (const auto& [recipe, bound] : {std::pair{"fp64", 1e-10}, std::pair{"fp32", 2e-5}}) {
    const TensorOutcome one = test::run_tensor_ranks({GetParam().config, recipe});
    for (const int tp : {2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        SCOPED_TRACE(testing::Message() << recipe << ", tp " << tp
                                        << (sequence_parallel ? ", sequence parallel" : ""));
        expect_same(test::run_tensor_ranks({GetParam().config, recipe, tp, sequence_parallel}), one,
                    bound);
      }
    }
  }
}

TEST(TensorParallelVocabulary, RanksWithoutTrueRows) {
  const ModelConfig model = test::tiny_model("gemma2");
  const TensorOutcome one = test::run_tensor_ranks({model});
  for (const int64_t multiple : {3, 5, 64}) {
    SCOPED_TRACE(multiple);
    expect_same(test::run_tensor_ranks({model, "fp64", 4, true, multiple}), one, 1e-10);
    expect_same(test::run_tensor_ranks({model, "fp64", 1, false, multiple}), one, 1e-10);
  }
}

/// Wire bytes by operation of one layer's forward and backward, from runs with one layer more.
std::map<std::string, int64_t> layer_bytes(bool sequence_parallel) {
  std::map<std::string, int64_t> bytes;
  for (const int64_t layers : {1, 2}) {
    ModelConfig model = test::tiny_model("llama");
    model.layers = layers;
    const TensorOutcome outcome = test::run_tensor_ranks({model, "fp32", 2, sequence_parallel});
    for (const CollectiveRecord& c : outcome.records[1].collectives())
      if (c.group == "tp")
        bytes[std::string(choice_name(c.operation))] += (layers == 2 ? 1 : -1) * c.wire_bytes;
  }
  return bytes;
}

TEST(TensorParallelBytes, AreThoseOfTheFormulas) {
  const int64_t stream = 16 * 16 * 4;  // tokens · hidden · 4 bytes
  // Two all-reduces forward, two backward, of 2 (tp − 1) / tp of the stream each.
  auto bytes = layer_bytes(false);
  EXPECT_EQ(bytes["all_reduce"], 4 * stream);
  EXPECT_EQ(bytes["all_gather"] + bytes["reduce_scatter"], 0);
  // Two of each forward and backward, of (tp − 1) / tp; the inputs of the column-parallel layers
  // are gathered again for their weights' gradients.
  bytes = layer_bytes(true);
  EXPECT_EQ(bytes["all_reduce"], 0);
  EXPECT_EQ(bytes["all_gather"], 6 * stream / 2);
  EXPECT_EQ(bytes["reduce_scatter"], 4 * stream / 2);
}

/// Bytes that a layer keeps from forward to backward on rank 0, from runs with one layer more.
int64_t kept_by_layer(int tp, bool sequence_parallel) {
  int64_t bytes = 0;
  for (const int64_t layers : {1, 2}) {
    ModelConfig model = test::tiny_model("llama");
    model.layers = layers;
    const auto outcome = test::run_tensor_ranks({model, "fp32", tp, sequence_parallel});
    bytes += (layers == 2 ? 1 : -1) * outcome.saved_bytes;
  }
  return bytes;
}

TEST(TensorParallelBytes, KeptActivationsAreCutByTheRanks) {
  // The inputs of the two norms, their outputs, and a statistic of each token.
  const int64_t stream = 2 * (16 * 16 * 4 * 2 + 16 * 4);
  // Queries, keys, values and outputs of 4 + 2 + 2 + 4 heads of 6, a log-sum-exp a head; gate, up
  // and their product, 12 each.
  const int64_t between = 16 * 4 * ((4 + 2 + 2 + 4) * 6 + 4 + 3 * 12);
  EXPECT_EQ(kept_by_layer(1, false), stream + between);
  EXPECT_EQ(kept_by_layer(2, false), stream + between / 2);
  EXPECT_EQ(kept_by_layer(2, true), stream / 2 + between / 2);
}

}  // namespace
}  // namespace viaduct
