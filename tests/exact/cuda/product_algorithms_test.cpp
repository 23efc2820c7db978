// Runs whose products have algorithms by time (dist.product_algorithms_path): all ranks and later
// runs with the file have the same bits, also in graphs; runs without a file are as they were.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cublaslt_double.h"
#include "cuda_host/graphs.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "support/rank_trainers.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kCuda{"dist.device=cuda", "train.train_iters=3"};

class ProductAlgorithmRuns : public testing::Test {
 protected:
  ~ProductAlgorithmRuns() override { cublaslt_double::offer_algorithms({0}); }
  Overrides by_time() const { return {"dist.product_algorithms_path=" + path_.string()}; }
  /// A run in which the library offers algorithms of these seconds.
  static std::vector<RunOutcome> run(const std::vector<double>& seconds, const Overrides& more,
                                     uint64_t seed = 1, int gpus = 1) {
    cuda_host::reset_runtime({.seed = seed, .devices = gpus});
    cublaslt_double::offer_algorithms(seconds);
    return train_ranks(tiny_run() + kCuda + more);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "algorithms.json";
};

TEST_F(ProductAlgorithmRuns, WithoutAFileHaveTheFirstAlgorithm) {
  const auto one = run({0}, {});
  EXPECT_TRUE(run({3, 1, 2}, {}) == one);
  EXPECT_EQ(cublaslt_double::products()[1], 0);
}

TEST_F(ProductAlgorithmRuns, LaterRunsHaveTheBitsOfTheFirst) {
  const auto plain = run({0}, {}), first = run({3, 1, 2}, by_time());
  EXPECT_FALSE(first == plain) << "no algorithm but the first was used";
  const std::string file = read_file(path_);
  EXPECT_NE(file.find("emulated GPU"), std::string::npos);
  for (const uint64_t seed : {2, 3}) EXPECT_TRUE(run({1, 2, 3}, by_time(), seed) == first) << seed;
  EXPECT_EQ(cublaslt_double::products()[0], 0) << "nothing is timed again";
  EXPECT_EQ(read_file(path_), file);
}

TEST_F(ProductAlgorithmRuns, GraphsHaveTheSameAlgorithms) {
  const auto plain = run({3, 1, 2}, by_time());
  for (const std::string impl : {"full_iteration", "local"}) {
    std::filesystem::remove(path_);
    const auto graphs = run(
        {3, 1, 2},
        by_time() + Overrides{"model.cuda_graph_impl=" + impl, "model.cuda_graph_warmup_steps=1"},
        2);
    EXPECT_GT(cuda_host::graph_counts().launched, 0) << impl;
    EXPECT_TRUE(graphs == plain) << impl;
  }
}

TEST_F(ProductAlgorithmRuns, RanksShareTheFile) {
  const Overrides two{"dist.ranks=2", "train.micro_batch_size=1",
                      "model.tensor_model_parallel_size=2"};
  nccl_double::reset({.seed = 1});
  const auto first = run({3, 1, 2}, two + by_time(), 1, 2);
  nccl_double::reset({.seed = 2});
  EXPECT_TRUE(run({1, 2, 3}, two + by_time(), 2, 2) == first);
  EXPECT_EQ(cublaslt_double::products()[0], 0) << "both ranks know all kinds from the file";
}

}  // namespace
}  // namespace viaduct
