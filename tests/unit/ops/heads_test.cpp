// Values that heads share, compared with the FP64 reference.

#include "ops/heads.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::random_strided;
using test::to_f64;

class HeadsTest : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 3, {cpu::add_heads}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, HeadsTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(HeadsTest, MatchTheReference) {
  for (const Shape& heads : {Shape{1, 1, 1}, Shape{5, 3, 12}, Shape{300, 7, 64}, Shape{0, 2, 8}}) {
    const Shape shared{heads[0], heads[2]};
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const RepeatHeadsArgs repeat{random_strided(dtype, shared, 5, 1),
                                   random_strided(dtype, heads, 3, 2)};
      RepeatHeadsArgs exact{to_f64(repeat.x), to_f64(repeat.out)};
      repeat_heads(context_, repeat);
      reference::repeat_heads(exact);
      test::expect_close(repeat.out, exact.out, 1);

      for (const DType out : {dtype, dtype == DType::f64 ? dtype : DType::f32}) {
        const SumHeadsArgs sum{random_strided(dtype, heads, 3, 3),
                               random_strided(out, shared, 5, 4)};
        SumHeadsArgs exact_sum{to_f64(sum.x), to_f64(sum.out)};
        sum_heads(context_, sum);
        reference::sum_heads(exact_sum);
        const Tensor terms = host_tensor(DType::f64, shared);
        test::set_values(terms, std::vector<double>(static_cast<size_t>(shared.elements()),
                                                    static_cast<double>(heads[1])));
        test::expect_close(sum.out, exact_sum.out, static_cast<double>(heads[1]), terms);
      }
    }
  }
}

TEST_P(HeadsTest, RefuseWhatDoesNotFit) {
  const Tensor heads = host_tensor(DType::f32, {2, 3, 4});
  EXPECT_THROW(repeat_heads(context_, {host_tensor(DType::f32, {2, 5}), heads}), ShapeError);
  EXPECT_THROW(sum_heads(context_, {heads, host_tensor(DType::f32, {3, 4})}), ShapeError);
  EXPECT_THROW(sum_heads(context_, {heads, host_tensor(DType::bf16, {2, 4})}), ShapeError);
}

}  // namespace
}  // namespace viaduct
