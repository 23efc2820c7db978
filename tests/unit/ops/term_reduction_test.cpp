// What the terms of a product with few rows read, made in the same op (GemmArgs::reduction): the
// bits of a product, `scale` and a product with terms, for any number of threads.

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/costs.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::strided_zeros;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Sizes {
  int64_t rows = 1, columns = 1, depth = 1;
  std::vector<int64_t> ranks;  // of terms, which have equal parts of the columns
};

int64_t sum_of(const std::vector<int64_t>& ranks) {
  int64_t sum = 0;
  for (const int64_t rank : ranks) sum += rank;
  return sum;
}

/// A product whose terms read `to`, which it does not make.
GemmArgs product_with_terms(const Sizes& s, DType dtype, const Tensor& to) {
  GemmArgs args{GemmForm::forward, random_strided(dtype, {s.rows, s.depth}, 3, 1),
                random_strided(dtype, {s.columns, s.depth}, 5, 2),
                strided_zeros(dtype, {s.rows, s.columns}, 2)};
  const int64_t part = s.columns / static_cast<int64_t>(s.ranks.size());
  int64_t from = 0, column = 0;
  for (const int64_t rank : s.ranks) {
    args.terms.push_back(
        {to.slice(1, from, rank), random_strided(dtype, {part, rank}, 1, 3), column});
    from += rank, column += part;
  }
  return args;
}

class TermReduction : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (context_.ops.reduced_rows == 0) GTEST_SKIP() << "makes no reductions";
  }
  Operand packed(const Operand& weight, GemmRequest request) {
    request.packed = true;
    return operand_in(context_, weight, gemm_operand_forms(context_.ops, request).b,
                      MemoryTag::other);
  }
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm, cpu::add_elementwise, cpu::add_activation}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, TermReduction, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(TermReduction, HasTheBitsOfOpsOfTheirOwn) {
  const Sizes cases[] = {{1, 1, 1, {1}},          {1, 208, 576, {16}},      {2, 96, 40, {8, 8, 8}},
                         {3, 130, 70, {5, 40}},   {5, 64, 1700, {16, 16}},  {8, 208, 576, {64}},
                         {8, 96, 1536, {20, 12}}, {4, 48, 31, {16, 1, 300}}};
  for (const Sizes& s : cases) {
    for (const DType dtype : test::kKernelDTypes) {
      for (const double factor : {1.0, 0.3}) {
        SCOPED_TRACE(testing::Message() << s.rows << " x " << s.columns << " x " << s.depth << " "
                                        << dtype_name(dtype) << " times " << factor);
        const int64_t width = sum_of(s.ranks);
        const Tensor down = random_strided(dtype, {width, s.depth}, 3, 9);
        const Tensor reduced = strided_zeros(dtype, {s.rows, width}, 1);
        GemmArgs apart = product_with_terms(s, dtype, reduced);
        gemm(context_, {GemmForm::forward, apart.a, down, reduced});
        scale(context_, {reduced, reduced, factor});
        gemm(context_, apart);

        for (const bool pack : {false, true}) {
          for (const int threads : {1, 3}) {
            OpMachine other(GetParam(), threads, {cpu::add_gemm});
            OpContext context = other.context();
            const Tensor to = strided_zeros(dtype, {s.rows, width}, 4);
            GemmArgs together = product_with_terms(s, dtype, to);
            together.reduction = {down, to, factor};
            if (pack) {
              GemmRequest request = gemm_request(together);
              together.b = packed(together.b, request);
              request.n = width;
              together.reduction.down = packed(down, request);
            }
            gemm(context, together);
            expect_same_bits(to, reduced);
            expect_same_bits(together.c, apart.c);
          }
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(TermReduction, ReachesBothHalvesOfAGate) {
  const Sizes s{3, 800, 576, {16, 16}};
  const Tensor down = random_tensor(DType::bf16, {32, s.depth}, 9);
  const Tensor reduced = strided_zeros(DType::bf16, {s.rows, 32}, 0);
  const Tensor to = strided_zeros(DType::bf16, {s.rows, 32}, 0);
  GemmArgs apart = product_with_terms(s, DType::bf16, reduced);
  apart.epilogue = {.activated = strided_zeros(DType::bf16, {s.rows, 400}, 0), .gated = true};
  gemm(context_, {GemmForm::forward, apart.a, down, reduced});
  gemm(context_, apart);
  GemmArgs together = product_with_terms(s, DType::bf16, to);
  together.epilogue = {.activated = strided_zeros(DType::bf16, {s.rows, 400}, 0), .gated = true};
  together.reduction = {down, to};
  gemm(context_, together);
  expect_same_bits(together.epilogue.activated, apart.epilogue.activated);
  expect_same_bits(together.c, apart.c);
}

TEST_P(TermReduction, CostsItsProduct) {
  const Tensor to = strided_zeros(DType::bf16, {4, 16}, 0);
  GemmArgs args = product_with_terms({4, 96, 64, {16}}, DType::bf16, to);
  const Cost without = cost_of(args);
  args.reduction = {random_tensor(DType::bf16, {16, 64}, 1), to};
  const Cost with = cost_of(args);
  EXPECT_EQ(with.total_flops() - without.total_flops(), 2.0 * 4 * 16 * 64);
  EXPECT_EQ(with.bytes_read - without.bytes_read, 2 * 16 * 64);
  EXPECT_EQ(with.bytes_written - without.bytes_written, 2 * 4 * 16);
}

TEST_P(TermReduction, RefusesWhatDoesNotFit) {
  const auto refused = [&](const GemmArgs& args, const std::string& text) {
    EXPECT_THAT([&] { gemm(context_, args); }, ThrowsMessage<ShapeError>(HasSubstr(text)));
  };
  const auto with_rows = [](int64_t rows) {
    const Tensor to = strided_zeros(DType::bf16, {rows, 16}, 0);
    GemmArgs args = product_with_terms({rows, 96, 64, {16}}, DType::bf16, to);
    args.reduction = {random_tensor(DType::bf16, {16, 64}, 1), to};
    return args;
  };
  refused(with_rows(context_.ops.reduced_rows + 1),
          "needs a forward with terms and at most 8 rows");
  GemmArgs args = with_rows(4);
  args.terms.clear();
  refused(args, "needs a forward with terms");
  args = with_rows(4);
  args.reduction.down = random_tensor(DType::bf16, {16, 63}, 1);
  refused(args, "expected down with 64 contracted elements");
  args = with_rows(4);
  args.reduction.down = random_tensor(DType::f32, {16, 64}, 1);
  refused(args, "expected down of dtype bf16");
  args = with_rows(4);
  args.reduction.to = strided_zeros(DType::bf16, {4, 15}, 0);
  refused(args, "expected to of shape [4, 16]");
  args = with_rows(4);
  args.c = strided_zeros(DType::f32, {4, 96}, 0);
  refused(args, "c");
}

}  // namespace
}  // namespace viaduct
