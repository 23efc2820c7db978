// The tests of ops and models on a GPU. Exits with 77, and says why, if there is none.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "gpu/gpu_machine.h"

int main(int count, char** words) {
  using namespace viaduct;
  constexpr int kSkipped = 77;
  testing::InitGoogleMock(&count, words);
  const bool lists = testing::GTEST_FLAG(list_tests);
  // Tests of how the cpu computes attention, of kernels of one target, and one that expects sums of
  // products in one order for all formats, which a library does not promise.
  std::string left_out = VIADUCT_TESTS_OF_THE_CPU ":*ProductsAreThoseOfTheWidenedMatrices*";
  if (!lists) {
    try {
      if (test::gpu_machine().target != CudaTarget::sm_90a) left_out += ":*GroupedWarpgroups*";
    } catch (const Error& error) {
      fmt::print("skipped: {}\n", error.what());
      return kSkipped;
    }
  }
  std::string filter = testing::GTEST_FLAG(filter);
  filter += (filter.find('-') == std::string::npos ? "-" : ":") + left_out;
  testing::GTEST_FLAG(filter) = filter;
  const int status = RUN_ALL_TESTS();
  if (!lists) {
    if (test::gpu_machine().products_on_cpu)
      fmt::print("the cpu computed products of formats that {} does not have\n",
                 cuda_target_name(test::gpu_machine().target));
    fmt::print("{}: {} tests passed, {} failed\n", test::gpu_machine().ops.traits.name,
               testing::UnitTest::GetInstance()->successful_test_count(),
               testing::UnitTest::GetInstance()->failed_test_count());
  }
  test::release_gpu_machine();
  return status;
}
