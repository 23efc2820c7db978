// Products of experts: the bits of one gemm for each expert, for uneven rows, none and all of them
// with one expert; and the sums against the FP64 reference.

#include "ops/grouped_gemm.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_close;
using test::expect_same_bits;
using test::integers;
using test::OpMachine;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kExperts = 4;

struct Case {
  GemmForm form;
  int64_t n, k;
  std::vector<int64_t> offsets;
  int64_t beyond = 0;  // rows that belong to nobody
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const GemmForm form :
       {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient}) {
    list.push_back({form, 24, 40, {0, 5, 5, 90, 97}});       // one without rows
    list.push_back({form, 70, 33, {0, 0, 0, 0, 130}});       // all with the last
    list.push_back({form, 72, 130, {0, 1, 110, 230, 231}});  // one row, and more than a block
    list.push_back({form, 16, 16, {0, 0, 0, 0, 0}});         // no rows at all
    list.push_back({form, 24, 40, {0, 5, 5, 60, 70}, 7});
  }
  return list;
}

GroupedGemmArgs make_args(const Case& c, DType dtype, DType out, WriteMode mode) {
  const int64_t rows = c.offsets.back() + c.beyond;
  const bool gradient = c.form == GemmForm::weight_gradient;
  const bool forward = c.form == GemmForm::forward;
  GroupedGemmArgs args;
  args.form = c.form;
  args.a = random_tensor(dtype, {rows, forward ? c.k : c.n}, 1);
  args.b = gradient ? random_tensor(dtype, {rows, c.k}, 2)
                    : random_tensor(dtype, {kExperts * c.n, c.k}, 2);
  args.c = gradient ? random_tensor(out, {kExperts * c.n, c.k}, 3)
                    : random_tensor(out, {rows, forward ? c.n : c.k}, 3);
  args.offsets = integers(DType::i32, c.offsets);
  args.mode = mode;
  return args;
}

class GroupedGemmTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 3, {cpu::add_gemm, cpu::add_grouped_gemm}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, GroupedGemmTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GroupedGemmTest, HasTheBitsOfOneProductForEachExpert) {
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

TEST_P(GroupedGemmTest, MatchesTheReference) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const GroupedGemmArgs args = make_args(c, dtype, dtype, WriteMode::assign);
      GroupedGemmArgs exact = args, sums = args;
      exact.a = to_f64(args.a), exact.b = to_f64(args.b), exact.c = to_f64(args.c);
      sums.a = test::magnitudes(args.a), sums.b = test::magnitudes(args.b);
      sums.c = to_f64(args.c);
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
  args = make_args(c, DType::f32, DType::f32, WriteMode::assign);
  args.offsets = integers(DType::i32, {0, 5, 5, 90, 98});
  EXPECT_THAT([&] { grouped_gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("expected 0 to at most 97")));
}

}  // namespace
}  // namespace viaduct
