// Products of experts compared with the FP64 reference, for different numbers of rows, none, and
// one expert with all rows.

#include <gmock/gmock.h>

#include "base/error.h"
#include "grouped_gemm_cases.h"
#include "ops/reference/reference.h"

namespace viaduct {
namespace {

using namespace grouped_gemm_test;
using test::expect_close;
using test::OpMachine;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

class GroupedGemmTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 3, {cpu::add_gemm, cpu::add_grouped_gemm}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, GroupedGemmTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

constexpr std::pair<DType, DType> kFormats[] = {{DType::f32, DType::f32},
                                                {DType::bf16, DType::bf16},
                                                {DType::bf16, DType::f32},
                                                {DType::f16, DType::f32},
                                                {DType::f64, DType::f64}};

TEST_P(GroupedGemmTest, MatchesTheReference) {
  for (const Case& c : cases()) {
    for (const auto& [dtype, out] : kFormats) {
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        const GroupedGemmArgs args = make_args(c, dtype, out, mode);
        GroupedGemmArgs exact = args, sums = args;
        exact.a = to_f64(args.a), exact.b = to_f64(args.b.tensor()), exact.c = to_f64(args.c);
        sums.a = test::magnitudes(args.a), sums.b = test::magnitudes(args.b.tensor());
        sums.c = test::magnitudes(args.c);
        grouped_gemm(context_, args);
        reference::grouped_gemm(exact);
        reference::grouped_gemm(sums);
        const int64_t depth = c.form == GemmForm::forward         ? c.k
                              : c.form == GemmForm::data_gradient ? c.n
                                                                  : c.offsets.back();
        expect_close(args.c, exact.c, static_cast<double>(std::max<int64_t>(depth, 1)), sums.c);
      }
    }
  }
}

TEST_P(GroupedGemmTest, CountsTheWorkOfAllRowsOnce) {
  const Case c{GemmForm::forward, 24, 40, {0, 5, 5, 90, 97}};
  const GroupedGemmArgs args = make_args(c, DType::f32, DType::f32, WriteMode::assign);
  const Choice choice = machine_.table().grouped_gemm.choose(args, machine_.table().traits);
  double flops = 0;
  for (const double of_format : choice.cost.flops) flops += of_format;
  EXPECT_EQ(flops, 2.0 * 97 * 24 * 40);
  EXPECT_EQ(choice.launches, 1);
}

TEST_P(GroupedGemmTest, ChecksRefuseWhatTheContractDoesNotAllow) {
  const Case c{GemmForm::forward, 24, 40, {0, 5, 5, 90, 97}};
  GroupedGemmArgs args = make_args(c, DType::f32, DType::f32, WriteMode::assign);
  args.c = host_tensor(DType::f32, {97, 25});
  EXPECT_THAT([&] { grouped_gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("[97, 24]")));
}

}  // namespace
}  // namespace viaduct
