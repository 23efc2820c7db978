// Biases of experts compared with the FP64 reference.

#include "ops/expert_bias.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::random_strided;
using test::random_tensor;
using test::to_f64;

class ExpertBiasTest : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 3, {cpu::add_expert_bias}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, ExpertBiasTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(ExpertBiasTest, MatchesTheReference) {
  const Tensor offsets = test::integers(DType::i32, {0, 4, 4, 5, 19});  // the second has no rows
  for (const int64_t features : {1, 33, 700}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const ExpertBiasArgs args{random_strided(dtype, {19, features}, 3, 1),
                                random_tensor(dtype, {4, features}, 2), offsets};
      ExpertBiasArgs exact{to_f64(args.x), to_f64(args.bias), offsets};
      expert_bias(context_, args);
      reference::expert_bias(exact);
      test::expect_close(args.x, exact.x, 1);

      const DType sums = dtype == DType::f64 ? dtype : DType::f32;
      const ExpertBiasBackwardArgs back{random_strided(dtype, {19, features}, 3, 3),
                                        random_tensor(sums, {4, features}, 4), offsets};
      ExpertBiasBackwardArgs exact_back{to_f64(back.dy), to_f64(back.d_bias), offsets};
      expert_bias_backward(context_, back);
      reference::expert_bias_backward(exact_back);
      const Tensor terms = host_tensor(DType::f64, {4, features});
      test::set_values(terms, std::vector<double>(static_cast<size_t>(4 * features), 15));
      test::expect_close(back.d_bias, exact_back.d_bias, 15, terms);
    }
  }
}

TEST_P(ExpertBiasTest, RefusesWhatDoesNotFit) {
  const Tensor x = host_tensor(DType::f32, {5, 8}), offsets = test::integers(DType::i32, {0, 2, 5});
  EXPECT_THROW(expert_bias(context_, {x, host_tensor(DType::f32, {2, 7}), offsets}), ShapeError);
  EXPECT_THROW(expert_bias(context_, {x, host_tensor(DType::f32, {3, 8}), offsets}), ShapeError);
  EXPECT_THROW(expert_bias_backward(context_, {x, host_tensor(DType::bf16, {2, 8}), offsets}),
               ShapeError);
}

}  // namespace
}  // namespace viaduct
