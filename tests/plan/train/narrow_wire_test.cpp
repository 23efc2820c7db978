// ddp.grad_reduce_in_bf16: gradients are sent in two bytes, as with grad_reduce_in_fp32=false.

#include <gmock/gmock.h>

#include "base/error.h"
#include "engine/dry_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Overrides kRun{"dist.ranks=2", "mixed_precision=bf16_mixed"};

int64_t reduced_bytes(const Overrides& overrides) {
  for (const GroupTraffic& traffic : dry_run(setup_of(tiny_run() + kRun + overrides)).traffic) {
    if (traffic.operation == Collective::reduce_scatter) return traffic.bytes;
  }
  return 0;
}

TEST(NarrowWire, GradReduceInBf16HalvesWhatIsSent) {
  const int64_t wide = reduced_bytes({}), narrow = reduced_bytes({"ddp.grad_reduce_in_bf16=true"});
  EXPECT_GT(narrow, 0);
  EXPECT_EQ(2 * narrow, wide);
  EXPECT_EQ(narrow, reduced_bytes({"ddp.grad_reduce_in_fp32=false"}));
}

TEST(NarrowWire, ItIsWhatOtherKnobsNeed) {
  EXPECT_NO_THROW(setup_of(
      tiny_run() + kRun +
      Overrides{"ddp.grad_reduce_in_bf16=true", "ddp.reduce_scatter_with_fp32_accumulation=true"}));
}

TEST(NarrowWire, WhatContradictsItIsSaid) {
  EXPECT_THAT(
      [] {
        setup_of(tiny_run() + kRun +
                 Overrides{"ddp.grad_reduce_in_bf16=true", "ddp.grad_reduce_in_fp32=true"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("ddp.grad_reduce_in_bf16")));
  EXPECT_THAT([] { setup_of(tiny_run() + Overrides{"ddp.grad_reduce_in_bf16=true"}); },
              ThrowsMessage<ConfigError>(HasSubstr("BF16 weights, found fp32")));
}

}  // namespace
}  // namespace viaduct
