// The bias of a linear layer against the FP64 reference.

#include "ops/bias.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::random_strided;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

class BiasTest : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 2, {cpu::add_bias}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, BiasTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(BiasTest, MatchesTheReference) {
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 33}, Shape{3, 20000}, Shape{0, 4}}) {
    for (const DType x : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      for (const DType bias : test::kKernelDTypes) {
        const BiasAddArgs args{random_strided(x, shape, 3, 1),
                               random_tensor(x == DType::f64 ? x : bias, {shape[1]}, 2),
                               random_strided(x, shape, 1, 3)};
        BiasAddArgs exact{to_f64(args.x), to_f64(args.bias), host_tensor(DType::f64, shape)};
        bias_add(context_, args);
        reference::bias_add(exact);
        test::expect_close(args.out, exact.out, 1);
        bias_add(context_, {args.x, args.bias, args.x});
        test::expect_same_bits(args.x, args.out);
      }
    }
  }
}

TEST_P(BiasTest, RefusesWhatDoesNotFit) {
  const Tensor x = host_tensor(DType::f32, {2, 8});
  EXPECT_THAT(
      [&] {
        bias_add(context_, {x, host_tensor(DType::f32, {7}), x});
      },
      ThrowsMessage<ShapeError>(HasSubstr("bias_add")));
  EXPECT_THROW(bias_add(context_, {x, host_tensor(DType::f64, {8}), x}), ShapeError);
}

}  // namespace
}  // namespace viaduct
