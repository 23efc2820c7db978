// Products of a few rows, which read a weight in place: equal, bit by bit, to the rows of products
// of many, on every instruction set.

#include <gtest/gtest.h>

#include "ops/gemm.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;

constexpr int64_t kMany = 20;  // more than few

class FewRows : public testing::TestWithParam<CpuIsa> {
 protected:
  /// Products of the first 1, 2 … 9 rows of `args`, which has kMany.
  void expect_rows_of(const GemmArgs& args) {
    gemm(context_, args);
    for (int64_t rows = 1; rows <= 9; ++rows) {
      SCOPED_TRACE(testing::Message() << rows << " rows");
      GemmArgs few = args;
      few.a = args.a.tensor().slice(0, 0, rows);
      few.c = random_strided(args.c.dtype(), {rows, args.c.dim(1)}, 3, 77);
      if (args.epilogue.residual) few.epilogue.residual = args.epilogue.residual.slice(0, 0, rows);
      if (args.epilogue.activated) {
        few.epilogue.activated =
            random_tensor(args.c.dtype(), {rows, args.epilogue.activated.dim(1)}, 78);
      }
      gemm(context_, few);
      expect_same_bits(few.c, args.c.slice(0, 0, rows));
      if (args.epilogue.activated)
        expect_same_bits(few.epilogue.activated, args.epilogue.activated.slice(0, 0, rows));
      if (HasFailure()) return;
    }
  }
  Operand packed(GemmForm form, const Tensor& weight, int64_t run = 0) {
    GemmRequest request{form, weight.dtype()};
    request.n = weight.dim(0), request.k = weight.dim(1);
    request.run = run, request.packed = true;
    return operand_in(context_, weight, gemm_operand_forms(context_.ops, request).b,
                      MemoryTag::other);
  }
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, FewRows, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

// Depths: less than a vector, whole steps, several sums and visits, each also with a remainder.
TEST_P(FewRows, AreRowsOfManyRows) {
  for (const DType dtype : test::kKernelDTypes) {
    for (const int64_t depth : {1, 8, 31, 64, 576, 845, 1700}) {
      for (const int64_t columns : {1, 24, 130}) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << columns << " x " << depth);
        const Tensor a = random_strided(dtype, {kMany, depth}, 5, 1);
        const Tensor weight = random_strided(dtype, {columns, depth}, 3, 2);
        GemmArgs args{GemmForm::forward, a, weight, random_tensor(DType::f32, {kMany, columns}, 3)};
        args.bias = random_tensor(dtype, {columns}, 4);
        expect_rows_of(args);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(FewRows, ReadPackedWeights) {
  if (!reads_packed_weights(context_.ops, DType::bf16)) GTEST_SKIP() << "packs nothing";
  for (const GemmForm form : {GemmForm::forward, GemmForm::data_gradient}) {
    for (const int64_t depth : {7, 16, 31, 49, 576, 1700}) {
      for (const int64_t columns : {24, 130}) {
        SCOPED_TRACE(testing::Message() << columns << " x " << depth);
        const bool forward = form == GemmForm::forward;
        const Tensor weight =
            random_tensor(DType::bf16, forward ? Shape{columns, depth} : Shape{depth, columns}, 2);
        expect_rows_of({form, random_strided(DType::bf16, {kMany, depth}, 5, 1),
                        packed(form, weight), random_tensor(DType::bf16, {kMany, columns}, 3)});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(FewRows, EndWithTheEpilogue) {
  constexpr int64_t kDepth = 96, kWidth = 400;
  for (const DType dtype : test::kKernelDTypes) {
    const bool packs = dtype == DType::bf16 && reads_packed_weights(context_.ops, dtype);
    const Tensor a = random_tensor(dtype, {kMany, kDepth}, 1);
    const Tensor weight = random_tensor(dtype, {2 * kWidth, kDepth}, 2);
    for (const bool pack : {false, true}) {
      if (pack && !packs) continue;
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << (pack ? " packed" : ""));
      GemmArgs args{GemmForm::forward, a,
                    pack ? packed(GemmForm::forward, weight, kWidth) : Operand(weight),
                    random_tensor(dtype, {kMany, 2 * kWidth}, 3)};
      args.bias = random_tensor(dtype, {2 * kWidth}, 4);
      args.epilogue.activated = random_tensor(dtype, {kMany, kWidth}, 5);
      args.epilogue.gated = true;
      expect_rows_of(args);
      args.epilogue = {.residual = random_tensor(dtype, {kMany, 2 * kWidth}, 6)};
      expect_rows_of(args);
    }
  }
}

TEST_P(FewRows, AddToWhatIsThere) {
  const Tensor a = random_tensor(DType::f32, {3, 50}, 1),
               weight = random_tensor(DType::f32, {40, 50}, 2);
  const Tensor before = random_tensor(DType::f32, {3, 40}, 3);
  GemmArgs args{GemmForm::forward, a, weight, host_tensor(DType::f32, {3, 40})};
  gemm(context_, args);
  std::vector<double> expected = test::values(args.c);
  const std::vector<double> added = test::values(before);
  args.c = before;
  args.mode = WriteMode::accumulate;
  gemm(context_, args);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(test::element(before, static_cast<int64_t>(i)),
              static_cast<float>(static_cast<float>(expected[i]) + static_cast<float>(added[i])));
  }
}

}  // namespace
}  // namespace viaduct
