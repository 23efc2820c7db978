// Settings of kernels beside products (comm_overlap.num_sm and its neighbours) in a step of two
// tensor ranks on the doubles: which connection carries the exchange of which product, and how many
// multiprocessors the product may use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cublaslt_double.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/rank_trainers.h"

namespace viaduct {
namespace {

using namespace test;
using nccl_double::Config;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

const Overrides kLayout{"dist.ranks=2", "model.tensor_model_parallel_size=2",
                        "model.sequence_parallel=true", "comm_overlap.tp_comm_overlap=true"};

std::map<std::string, Tensor> gradients(const Overrides& more) {
  const auto folder = test_data("golden/llama_tied");
  return probe_layout(folder / "model", folder / "golden.safetensors", false, kLayout + more);
}

/// Gradients on GPUs of 4 multiprocessors.
std::map<std::string, Tensor> on_gpus(const Overrides& more) {
  cuda_host::reset_runtime({.seed = 1, .devices = 2});
  nccl_double::reset({.seed = 1});
  cublaslt_double::offer_algorithms({0});
  return gradients(Overrides{"dist.device=cuda"} + more);
}

/// Kinds of calls of the connections with so many blocks.
std::map<std::string, int64_t> calls_with(int ctas, std::optional<int> cluster = {}) {
  return nccl_double::calls_with(
      {.ranks = 2, .min_ctas = ctas, .max_ctas = ctas, .cga_cluster_size = cluster});
}

TEST(ProductConnections, EachExchangeGoesOverThatOfItsProduct) {
  const auto cpu = gradients({});
  const auto cuda =
      on_gpus({"comm_overlap.tp_comm_overlap_cfg={fc1_fprop: {num_sm: 1}, fc2_fprop: {num_sm: 2, "
               "cga_size: 2, num_splits: 2}, qkv_dgrad: {num_sm: 3, set_sm_margin: true}, "
               "qkv_wgrad: {num_sm: 4}}"});
  for (const auto& [name, values] : cpu)
    EXPECT_LE(relative_error(cuda.at(name), values), 2e-5) << name;
  // The probe runs some forwards more than backwards.
  const int64_t backwards = calls_with(3)["all_gather"] / 2, forwards = calls_with(1)["send"] / 2;
  ASSERT_GT(backwards, 0);
  EXPECT_THAT(calls_with(1),
              UnorderedElementsAre(Pair("send", 2 * forwards), Pair("receive", 2 * forwards)))
      << "fc1_fprop: a ring of two";
  EXPECT_THAT(calls_with(2, 2), UnorderedElementsAre(Pair("reduce_scatter", 2 * 2 * forwards)))
      << "fc2_fprop: in two parts";
  EXPECT_THAT(calls_with(3), UnorderedElementsAre(Pair("all_gather", 2 * backwards)))
      << "qkv_dgrad";
  EXPECT_THAT(calls_with(4), UnorderedElementsAre(Pair("reduce_scatter", 2 * backwards)))
      << "qkv_wgrad";
  EXPECT_EQ(nccl_double::configs().size(), 2u * 4) << "a rank makes no more than these";
  const auto products = cublaslt_double::products_by_multiprocessors();
  EXPECT_EQ(products.at(4 - 3), 2 * backwards) << "qkv_dgrad leaves 3";
  EXPECT_EQ(products.size(), 2u) << "all others have all";
}

TEST(ProductConnections, AProductBesideEachMethodLeavesMultiprocessors) {
  on_gpus({"comm_overlap.tp_comm_overlap_cfg={}"});
  const int64_t all = cublaslt_double::products_by_multiprocessors().at(0);
  EXPECT_THAT(nccl_double::configs(), IsEmpty()) << "nobody asks";
  on_gpus({"comm_overlap.num_sm=1", "comm_overlap.set_sm_margin=true"});
  const auto products = cublaslt_double::products_by_multiprocessors();
  EXPECT_EQ(products.at(0) + products.at(3), all);
  auto calls = calls_with(1);
  const int64_t backwards = calls["all_gather"] / 2 / 2;              // of qkv and fc1
  const int64_t parts = calls["reduce_scatter"] / 2 - 2 * backwards;  // of proj and fc2
  ASSERT_GT(backwards, 0);
  // Products of a forward: rings of two chunks for qkv and fc1, four parts of proj and of fc2. Of a
  // backward: rings for proj and fc2, and both bulk products of qkv and of fc1.
  const int64_t forwards = parts / (2 * 4);
  EXPECT_EQ(products.at(3), 2 * (forwards * (2 * 2 + 2 * 4) + backwards * (2 * 2 + 2 * 2)));
  EXPECT_EQ(nccl_double::configs().size(), 2u * 3)
      << "collectives, and messages of two flows, of one settings";
}

TEST(ProductConnections, RanksThatShareAGpuHaveNone) {
  cuda_host::reset_runtime({.seed = 1, .devices = 1});
  EXPECT_THAT(([] {
                gradients({"dist.device=cuda", "comm_overlap.num_sm=1"});
              }),
              ThrowsMessage<ConfigError>(HasSubstr("ranks that share a GPU do not use")));
}

TEST(ProductConnections, CopyEnginesGatherFromSymmetricMemory) {
  const Overrides copies{"comm_overlap.use_ce=true", "ddp.nccl_ub=true"};
  cuda_host::reset_runtime({.seed = 1, .devices = 2});
  nccl_double::reset({.seed = 1});
  train_ranks(tiny_run() + kLayout + Overrides{"dist.device=cuda", "train.train_iters=2"} + copies);
  const Config zero{.ranks = 2, .policy = 2};
  EXPECT_GT(nccl_double::calls_with(zero)["all_gather"], 0);
  EXPECT_EQ(nccl_double::calls_with(zero).size(), 1u);
  EXPECT_GT(nccl_double::registered().windows, 0);
  EXPECT_GE(nccl_double::registered().calls_in_windows,
            nccl_double::calls_with(zero)["all_gather"]);
  EXPECT_EQ(nccl_double::registered().buffers, 0);
}

}  // namespace
}  // namespace viaduct
