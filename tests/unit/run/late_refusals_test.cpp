// Values at the ends of ranges, and pairs of values, that would only end a run that has begun:
// refused with the configuration.

#include <gmock/gmock.h>

#include "support/validated_run.h"

namespace viaduct {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> value_problems(const std::string& setting) {
  RunConfig config;
  const Schema schema = run_schema(config);
  Problems problems;
  read_config(schema, {{}, {setting}}, problems);
  return problems.all();
}

TEST(LateRefusals, ValuesThatEndInNotANumberAreOutOfRange) {
  for (const char* name :
       {"model.hidden_dropout", "model.embedding_dropout", "model.attention_dropout",
        "optimizer.adam_beta1", "optimizer.adam_beta2", "optimizer.lion_beta1",
        "optimizer.lion_beta2", "optimizer.muon_momentum"}) {
    EXPECT_THAT(value_problems(name + std::string("=1")),
                ElementsAre(HasSubstr("expected >= 0 and < 1, found 1")))
        << name;
    EXPECT_THAT(value_problems(name + std::string("=0.99")), testing::IsEmpty()) << name;
  }
  EXPECT_THAT(value_problems("optimizer.adafactor_decay_rate=0"),
              ElementsAre(HasSubstr("found 0")));
  EXPECT_THAT(value_problems("optimizer.adam_eps=1e-300"), ElementsAre(HasSubstr("found 1e-300")));
}

TEST(LateRefusals, WeightDecayThatGrowsNeedsAStyle) {
  const std::string style = "scheduler.weight_decay_incr_style=";
  EXPECT_THAT(
      validated({"optimizer.weight_decay=0.1", "scheduler.end_weight_decay=0.15"}).problems,
      ElementsAre(HasSubstr("weight decay goes from 0.1 to 0.15; expected linear or cosine")));
  EXPECT_THAT(
      validated(
          {"optimizer.weight_decay=0.1", "scheduler.start_weight_decay=0.2", style + "linear"})
          .problems,
      ElementsAre(HasSubstr("0.1 (of optimizer.weight_decay) is below start_weight_decay")));
  EXPECT_THAT(
      validated({"optimizer.weight_decay=0.1", "scheduler.end_weight_decay=0.15", style + "linear"})
          .problems,
      testing::IsEmpty());
}

// Key-value heads that ranks share are repeated, so that a matrix of queries, keys and values has
// no equal boxes (phi3); where each has a matrix of its own, Muon finds them (llama).
TEST(LateRefusals, MuonNeedsEqualBoxesOfAMatrix) {
  const std::string muon = "optimizer.optimizer=muon", phi3 = "model.family=phi3";
  EXPECT_ONE(
      "optimizer.optimizer: muon makes whole matrices of equal boxes on tensor ranks, and 8 ranks "
      "(model.tensor_model_parallel_size) have no such boxes of "
      "model.layers.{}.self_attn.qkv_proj, queries, keys and values with 4 key-value heads "
      "(model.num_query_groups); nearest: tensor_model_parallel_size=4, or optimizer=adam",
      muon, phi3, tp(8));
  EXPECT_GOOD(muon, phi3, tp(4));
  EXPECT_GOOD(phi3, tp(8));
  EXPECT_GOOD(muon, "model.family=llama", tp(8));
}

TEST(LateRefusals, ChunksOfQuantizedProductsAreMultiplesOfWhatAGpuReads) {
  const auto problems = [](const std::string& device, const std::string& splits) {
    return validated({"mixed_precision=fp16_mixed", "mixed_precision.fp8=hybrid", tp(2),
                      "model.sequence_parallel=true", "comm_overlap.tp_comm_overlap=true", device,
                      "dist.cluster=dgx-b200", "comm_overlap.num_splits=" + splits})
        .problems;
  };
  EXPECT_THAT(problems("dist.device=sim", "4"), testing::IsEmpty());
  EXPECT_THAT(problems("dist.device=sim", "8"),
              testing::Contains(HasSubstr(
                  "num_splits: 8 does not divide the 64 output features into multiples of 16, as "
                  "products of quantized operands on a GPU need; nearest: 4")));
  EXPECT_THAT(problems("dist.device=cpu", "8"), testing::IsEmpty());
}

}  // namespace
}  // namespace viaduct
