// The cost of a product's epilogue that works on the product in cache.

#include <gtest/gtest.h>

#include "ops/gemm.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

class GemmEpilogueCost : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 1, {cpu::add_gemm}};
};

INSTANTIATE_TEST_SUITE_P(Isa, GemmEpilogueCost, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GemmEpilogueCost, SavesTheBytesOfWhatIsNotReadAgain) {
  const auto device = make_sim_device();
  OpContext context{*device, machine_.table()};
  StepRecord record;
  device->set_record(&record);
  const auto tensor = [&](const Shape& shape) {
    return device->allocate(DType::bf16, shape, MemoryTag::other);
  };
  const int64_t a = 2 * 10 * 20, w = 2 * 30 * 20, c = 2 * 10 * 30;
  const auto last = [&] { return record.ops().back().cost; };
  const double product = 2.0 * 10 * 20 * 30;
  GemmArgs args{GemmForm::forward, tensor({10, 20}), tensor({30, 20}), tensor({10, 30})};
  args.epilogue.residual = tensor({10, 30});
  gemm(context, args);
  EXPECT_EQ(last().bytes_read, a + w + c);
  EXPECT_EQ(last().bytes_written, c);
  EXPECT_EQ(last().total_flops(), product + 10 * 30);
  args.epilogue = {};
  args.epilogue.activated = tensor({10, 15});
  args.epilogue.gated = true;
  gemm(context, args);
  EXPECT_EQ(last().bytes_read, a + w);
  EXPECT_EQ(last().bytes_written, c + c / 2);
  EXPECT_EQ(last().total_flops(), product + 17.0 * 10 * 15);
  GemmArgs back{GemmForm::data_gradient, tensor({10, 30}), tensor({30, 20}), tensor({10, 40})};
  back.epilogue.raised = back.c;
  back.epilogue.gated = true;
  gemm(context, back);
  EXPECT_EQ(last().bytes_read, c + w + 2 * a);
  EXPECT_EQ(last().bytes_written, 2 * a);
  EXPECT_EQ(last().total_flops(), product + 24.0 * 10 * 20);
}

}  // namespace
}  // namespace viaduct
