// ddp.nccl_ub: the plan's memory is NCCL's own, symmetric or not (comm/nccl/nccl_memory.h).

#include <gtest/gtest.h>

#include "exact/cuda/launched_run.h"

namespace viaduct {
namespace {

using namespace test;

TEST(RegisteredMemory, OfARunIsNcclsOwn) {
  const RunSetup setup = setup_of(
      run_of(2) + Overrides{"ddp.nccl_ub=true", "ddp.disable_symmetric_registration=true"});
  EXPECT_EQ(started_together(setup, 2).size(), 2u);
  EXPECT_GT(nccl_double::registered().buffers, 0);
  EXPECT_EQ(nccl_double::registered().windows, 0);
}

}  // namespace
}  // namespace viaduct
