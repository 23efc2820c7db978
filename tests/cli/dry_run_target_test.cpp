// viaduct train --dry-run --target: the target's kernels are shown.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/command.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kRun =
    "train dataset.mock=true model.family=llama model.num_layers=2 model.hidden_size=32 "
    "model.num_attention_heads=4 model.vocab_size=64 model.seq_length=32 train.train_iters=2 "
    "train.global_batch_size=2 train.micro_batch_size=1 ";

TEST(DryRunTarget, AGpusKernelsAreShown) {
  const auto run = test::run_viaduct(kRun + "--dry-run --json --target cuda:sm_90a");
  ASSERT_EQ(run.status, 0) << run.err;
  const auto document = nlohmann::json::parse(run.out);
  EXPECT_EQ(document["target"], "cuda:sm_90a");
  bool products = false;
  for (const auto& use : document["stages"][0]["kernels"])
    products |= use["op"] == "gemm" && use["kernel"] == "cublaslt_bf16";
  EXPECT_TRUE(products);
  for (const auto& [backend, kernel] :
       {std::pair("auto", "cudnn"), std::pair("flash", "flash_mma")}) {
    EXPECT_THAT(test::run_viaduct(kRun + "model.attention_backend=" + backend +
                                  " --dry-run --full --target cuda:sm_100a")
                    .out,
                AllOf(HasSubstr("kernels of a step on cuda:sm_100a"), HasSubstr(kernel)));
  }
}

TEST(DryRunTarget, AnotherCpuIsSimulated) {
  const auto run = test::run_viaduct(kRun + "--dry-run --json --target cpu:amx");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["target"], "cpu:amx");
}

TEST(DryRunTarget, WrongNamesAreRefusedWithTheRightOnes) {
  const auto wrong = test::run_viaduct(kRun + "--dry-run --target cuda:sm_90");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("cuda:sm_90a"), HasSubstr("cpu:avx512")));
  EXPECT_EQ(test::run_viaduct(kRun + "--target cuda:sm_90a").status, 2);  // not a dry run
  const auto twice = test::run_viaduct(kRun + "dist.cpu_isa=avx2 --dry-run --target cpu:avx512");
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.err, HasSubstr("dist.cpu_isa=avx2"));
}

}  // namespace
}  // namespace viaduct
