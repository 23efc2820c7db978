// Products of experts have the bits of one gemm for each expert, and refuse offsets out of range:
// guarantees that only the cpu gives.

#include <gmock/gmock.h>

#include "../grouped_gemm_cases.h"
#include "base/error.h"

namespace viaduct {
namespace {

using namespace grouped_gemm_test;
using test::expect_same_bits;
using testing::HasSubstr;
using testing::ThrowsMessage;

class GroupedGemmBits : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 3, {cpu::add_gemm, cpu::add_grouped_gemm}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, GroupedGemmBits, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GroupedGemmBits, HasTheBitsOfOneProductForEachExpert) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        const GroupedGemmArgs args = make_args(c, dtype, DType::f32, mode);
        const GroupedGemmArgs single = make_args(c, dtype, DType::f32, mode);
        grouped_gemm(context_, args);
        for (int64_t e = 0; e < kExperts; ++e) {
          const auto at = static_cast<size_t>(e);
          gemm(context_, product_of_expert(single, e, c.offsets[at], c.offsets[at + 1]));
        }
        expect_same_bits(args.c, single.c);
      }
    }
  }
}

// Their packed weights do not fit the workspace together, so they run in several turns.
TEST(GroupedGemmOfManyExperts, HasTheBitsOfOneProductForEachExpert) {
  test::OpMachine machine(test::testable_isas().back(), 2, {cpu::add_gemm, cpu::add_grouped_gemm});
  OpContext context = machine.context();
  constexpr int64_t kMany = 12, kRows = 100, kN = 1024, kK = 512;
  std::vector<int64_t> offsets;
  for (int64_t e = 0; e <= kMany; ++e) offsets.push_back(e * kRows);
  GroupedGemmArgs args{GemmForm::forward, test::random_tensor(DType::bf16, {kMany * kRows, kK}, 1),
                       test::random_tensor(DType::bf16, {kMany * kN, kK}, 2),
                       host_tensor(DType::bf16, {kMany * kRows, kN}),
                       test::integers(DType::i32, offsets)};
  GroupedGemmArgs single = args;
  single.c = host_tensor(DType::bf16, args.c.shape());
  grouped_gemm(context, args);
  for (int64_t e = 0; e < kMany; ++e)
    gemm(context, product_of_expert(single, e, e * kRows, (e + 1) * kRows));
  expect_same_bits(args.c, single.c);
}

TEST_P(GroupedGemmBits, OffsetsBeyondTheRowsAreRefused) {
  const Case c{GemmForm::forward, 24, 40, {0, 5, 5, 90, 97}};
  GroupedGemmArgs args = make_args(c, DType::f32, DType::f32, WriteMode::assign);
  args.offsets = test::integers(DType::i32, {0, 5, 5, 90, 98});
  EXPECT_THAT([&] { grouped_gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("expected 0 to at most 97")));
}

}  // namespace
}  // namespace viaduct
