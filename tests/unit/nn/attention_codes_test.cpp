// One layer of attention in FP8: on context ranks as on one, and scales over the ranks that share a
// micro-batch. (Whole models are no measure of it: an element that is rounded to its other
// neighbour changes all that is rounded after it.)

#include "nn/attention_codes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/nn/context_parallel_ranks.h"

namespace viaduct {
namespace {

using test::AttentionTensors;
using test::ContextCase;

constexpr Tensor AttentionTensors::*kResults[] = {&AttentionTensors::out, &AttentionTensors::dq,
                                                  &AttentionTensors::dk, &AttentionTensors::dv};

double distance(const Tensor& a, const Tensor& b) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < b.elements(); ++i) {
    difference += std::pow(test::element(a, i) - test::element(b, i), 2);
    size += std::pow(test::element(b, i), 2);
  }
  return std::sqrt(difference / size);
}

// Probabilities are rounded alike wherever their keys are; if a rank used its own scales, or
// rounded relative to the largest score of its block, the difference would be as large as FP8's
// from FP32.
TEST(AttentionCodes, ContextRanksAttendAsOneRank) {
  for (const ContextExchange exchange : {ContextExchange::p2p, ContextExchange::all_gather,
                                         ContextExchange::a2a, ContextExchange::a2a_p2p}) {
    ContextCase c;
    c.exchange = exchange, c.cp = 4, c.inner = exchange == ContextExchange::a2a_p2p ? 2 : 1;
    c.heads = 8, c.kv_heads = 4, c.width = 16, c.lengths = {48, 64};
    for (const double dropout : {0.0, 0.3}) {
      c.dropout = dropout;
      c.fp8 = false;
      const AttentionTensors plain = test::attend(c, "fp32");
      for (const bool output : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << choice_name(exchange) << " dropout " << dropout << " output " << output);
        c.fp8 = true, c.fp8_output = output;
        const AttentionTensors one = test::attend(c, "fp32");
        const AttentionTensors many = test::attend_over_ranks(c, "fp32", {exchange}).layers.front();
        for (const auto result : kResults) {
          const double of_format = distance(one.*result, plain.*result);
          EXPECT_GT(of_format, 0.02);
          EXPECT_LT(distance(many.*result, one.*result), of_format / 10);
        }
      }
    }
  }
}

TEST(AttentionCodes, ScalesAreThoseOfAllRanksOfAMicroBatch) {
  for (const bool tensor : {true, false}) {
    run_thread_ranks(2, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
      const auto device = make_cpu_device(1);
      const ParallelGroups groups(Mesh({tensor ? 2 : 1, tensor ? 1 : 2, 1, 1, 1}), world);
      LayerSettings settings{.precision = precision_recipe("bf16_mixed")};
      settings.precision.products = {Scaling::tensor, DType::e4m3, DType::e5m2, true, true, true};
      const OpTable ops = cpu_ops(test::instruction_set());
      test::NoWeights weights;
      RankContext context{
          .ops = {*device, ops}, .weights = weights, .groups = groups, .settings = settings};
      const auto projection = test::quantized_projection();
      const SavedStore saved;
      // Rank 1 has the largest value of each tensor except the keys.
      const float own[] = {world->rank() == 1 ? 8.0f : 2.0f, world->rank() == 1 ? 1.0f : 3.0f,
                           world->rank() == 1 ? 5.0f : 0.5f};
      const auto heads_of = [&](float value) {
        const Tensor heads = host_tensor(DType::bf16, {4, 2, 16});
        for (int64_t i = 0; i < heads.elements(); ++i)
          heads.data<bfloat16>()[i] = bfloat16(i == 17 ? -value : value / 2);
        return heads;
      };
      const AttentionHeads codes = codes_of_heads(
          context, *projection, {heads_of(own[0]), heads_of(own[1]), heads_of(own[2])}, saved);
      const float largest[] = {8, 3, 5};
      for (int64_t i = 0; i < 3; ++i)
        EXPECT_EQ(codes.scales.data<float>()[i], largest[i] / 448) << tensor << " " << i;
      EXPECT_EQ(static_cast<float>(codes.q.data<float8_e4m3>()[17]),
                world->rank() == 1 ? -448.0f : -112.0f);
      const HeadCodes gradient = codes_of(context, *projection, LayerOperand::attended_gradient,
                                          heads_of(own[0]), MemoryTag::activations, saved);
      EXPECT_EQ(gradient.values.dtype(), DType::e5m2);
      EXPECT_EQ(gradient.scale.data<float>()[0], 8.0f / 57344);
      EXPECT_EQ(gradient.values.shape(), (Shape{4, 2, 16}));
    });
  }
}

}  // namespace
}  // namespace viaduct
