// The counts of kernels that the binary holds, and that each kernel plans ask for has some.

#include "hardware/kernel_counts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/paths.h"

namespace viaduct {
namespace {

TEST(KernelCounts, AreThoseOfTheBudgets) {
  std::ifstream file(test::source_folder() / "tools/gpu_code/budgets/kernels.tsv");
  int found = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name, target, skipped, count;
    std::getline(fields, name, '\t') && std::getline(fields, target, '\t');
    for (int i = 0; i < 3; ++i) std::getline(fields, skipped, '\t');
    std::getline(fields, count, '\t');
    if (target != "sm_90a" || count == "0") continue;
    EXPECT_EQ(instructions_per_product(CudaTarget::sm_90a, name, name), std::stod(count)) << name;
    ++found;
  }
  EXPECT_GT(found, 60);
}

TEST(KernelCounts, OfSeveralKernelsTheMostCounts) {
  const auto of = [](std::string_view ends) {
    return instructions_per_product(CudaTarget::sm_90a, "grouped_gemm_kernel<Bf16,", ends);
  };
  EXPECT_GE(of(">"), of(", true>"));
  EXPECT_GT(of(", true>"), 0);
  EXPECT_EQ(of("no such end"), 0);
}

/// A kernel that is renamed would otherwise count as none.
TEST(KernelCounts, EveryTargetHasThoseOfAttentionAndExperts) {
  for (const CudaTarget target : kCudaTargets) {
    SCOPED_TRACE(cuda_target_name(target));
    for (const char* widths : {"64, 64", "128, 128", "192, 128", "256, 256"}) {
      for (const char* kernel :
           {"forward_kernel<", "backward_keys_kernel<", "backward_queries_kernel<"}) {
        for (const char* type : {"Bf16, ", "Code, "})
          EXPECT_GT(instructions_per_product(target, std::string(kernel) + type + widths, ">"), 0)
              << kernel << type << widths;
      }
    }
    EXPECT_GT(instructions_per_product(target, "grouped_gemm_kernel<Bf16,", ">"), 0);
    for (const char* scaled : {"0>", "1>", "2>"})
      EXPECT_GT(instructions_per_product(target, "grouped_codes_kernel<",
                                         std::string("(Scaled)") + scaled),
                0);
    const bool warpgroups = target == CudaTarget::sm_90a;
    for (const char* kernel :
         {"grouped_warpgroups_kernel<Bf16,", "grouped_code_warpgroups_kernel<"})
      EXPECT_EQ(instructions_per_product(target, kernel, ">") > 0, warpgroups) << kernel;
  }
}

/// 132 and 108 multiprocessors at 1.98 and 1.41 GHz, four instructions a cycle.
TEST(KernelCounts, InstructionsFollowFromThePeakOfVectorUnits) {
  EXPECT_NEAR(instructions_per_second(load_gpu("h100-sxm")), 132 * 4 * 1.98e9, 1e10);
  EXPECT_NEAR(instructions_per_second(load_gpu("a100-80gb-sxm")), 108 * 4 * 1.41e9, 1e10);
}

}  // namespace
}  // namespace viaduct
