// The look-up of FP8 codes on the emulator: op_machine.cpp compares each launch with the cpu's.

#include <gtest/gtest.h>

#include "ops/embedding.h"
#include "support/op_testing.h"

namespace viaduct::test {
namespace {

TEST(EmbeddingCodes, AreCopiedAsTheyAre) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_embedding});
  OpContext context = machine.context();
  for (const int64_t width : {48, 37}) {
    const Tensor weight = host_tensor(DType::e4m3, {5, width});
    auto* const codes = static_cast<uint8_t*>(weight.raw());
    for (int64_t i = 0; i < weight.elements(); ++i) codes[i] = static_cast<uint8_t>(i * 7 + 1);
    const Tensor ids = integers(DType::i32, {12, 10, 9, 15, 14});
    const Tensor out = host_tensor(DType::e4m3, {5, width});
    embedding_forward(context, {ids, weight, out, 10});
    const auto* const found = static_cast<const uint8_t*>(out.raw());
    EXPECT_EQ(found[0], codes[2 * width]);
    EXPECT_EQ(found[2 * width - 1], codes[width - 1]);
    EXPECT_EQ(found[2 * width], 0) << "an id of another rank";
    EXPECT_EQ(found[4 * width + 36], codes[4 * width + 36]);
  }
}

}  // namespace
}  // namespace viaduct::test
