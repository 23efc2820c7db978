// Matrix products compared with the FP64 reference over forms, odd shapes, dtypes and instruction
// sets; they depend neither on threads nor on how the rows are split.

#include "ops/gemm.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_close;
using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Sizes {
  int64_t m, n, k;  // tokens, output features, input features
};

/// The shapes of a, b and c of a form.
struct Shapes {
  Shape a, b, c;
};
Shapes shapes_of(GemmForm form, const Sizes& s) {
  switch (form) {
    case GemmForm::forward:
      return {{s.m, s.k}, {s.n, s.k}, {s.m, s.n}};
    case GemmForm::data_gradient:
      return {{s.m, s.n}, {s.n, s.k}, {s.m, s.k}};
    default:
      return {{s.m, s.n}, {s.m, s.k}, {s.n, s.k}};
  }
}

int64_t depth_of(GemmForm form, const Sizes& s) {
  return form == GemmForm::forward ? s.k : form == GemmForm::data_gradient ? s.n : s.m;
}

constexpr GemmForm kForms[] = {GemmForm::forward, GemmForm::data_gradient,
                               GemmForm::weight_gradient};

/// The same product in FP64, and Σ|terms| of each element.
struct Reference {
  Tensor c, term_sums;
};
Reference reference_of(const GemmArgs& args) {
  GemmArgs exact = args;
  exact.a = to_f64(args.a.tensor()), exact.b = to_f64(args.b.tensor()), exact.c = to_f64(args.c);
  exact.bias = to_f64(args.bias);
  GemmArgs sums = exact;
  sums.a = test::magnitudes(exact.a.tensor()), sums.b = test::magnitudes(exact.b.tensor());
  sums.c = test::magnitudes(exact.c);
  if (exact.bias) sums.bias = test::magnitudes(exact.bias);
  reference::gemm(exact);
  reference::gemm(sums);
  return {exact.c, sums.c};
}

class GemmTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, GemmTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GemmTest, MatchesTheReference) {
  const Sizes sizes[] = {{1, 1, 1},      {3, 5, 7},     {64, 128, 64}, {65, 129, 17},
                         {1, 130, 70},   {130, 1, 513}, {70, 200, 33}, {18, 36, 520},
                         {17, 33, 1030}, {2, 64, 0},    {200, 31, 97}};
  uint64_t seed = 1;
  for (const Sizes& s : sizes) {
    for (GemmForm form : kForms) {
      for (DType dtype : test::kKernelDTypes) {
        for (DType out : {dtype, DType::f32}) {
          for (WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
            SCOPED_TRACE(testing::Message()
                         << "form " << static_cast<int>(form) << ", " << s.m << " x " << s.n
                         << " x " << s.k << ", " << dtype_name(dtype) << " to " << dtype_name(out)
                         << (mode == WriteMode::assign ? " =" : " +="));
            const Shapes shapes = shapes_of(form, s);
            GemmArgs args{form,
                          random_strided(dtype, shapes.a, 3, ++seed),
                          random_strided(dtype, shapes.b, 5, ++seed),
                          random_strided(out, shapes.c, 2, ++seed),
                          {},
                          mode};
            const Reference expected = reference_of(args);
            gemm(context_, args);
            expect_close(args.c, expected.c, static_cast<double>(depth_of(form, s)),
                         expected.term_sums);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(GemmTest, AddsTheBias) {
  for (DType dtype : test::kKernelDTypes) {
    for (DType bias : {dtype, DType::f32}) {
      GemmArgs args{GemmForm::forward, random_tensor(dtype, {67, 33}, 1),
                    random_tensor(dtype, {131, 33}, 2), random_tensor(dtype, {67, 131}, 3),
                    random_tensor(bias, {131}, 4)};
      const Reference expected = reference_of(args);
      gemm(context_, args);
      expect_close(args.c, expected.c, 34, expected.term_sums);
    }
  }
}

TEST_P(GemmTest, NothingToComputeAndNothingContracted) {
  GemmArgs args{GemmForm::forward, random_tensor(DType::f32, {0, 8}, 1),
                random_tensor(DType::f32, {4, 8}, 2), random_tensor(DType::f32, {0, 4}, 3)};
  gemm(context_, args);
  // No tokens: the weight gradient is zero, and accumulating it changes nothing.
  GemmArgs empty{GemmForm::weight_gradient, random_tensor(DType::f32, {0, 64}, 1),
                 random_tensor(DType::f32, {0, 128}, 2), random_tensor(DType::f32, {64, 128}, 3)};
  const Tensor before = to_f64(empty.c);
  empty.mode = WriteMode::accumulate;
  gemm(context_, empty);
  expect_same_bits(to_f64(empty.c), before);
  empty.mode = WriteMode::assign;
  gemm(context_, empty);
  expect_same_bits(empty.c, host_tensor(DType::f32, {64, 128}));
}

TEST_P(GemmTest, BitsDoNotDependOnThreads) {
  for (GemmForm form : kForms) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      const Shapes shapes = shapes_of(form, {150, 270, 300});
      GemmArgs args{form, random_tensor(dtype, shapes.a, 1), random_tensor(dtype, shapes.b, 2),
                    host_tensor(dtype, shapes.c)};
      gemm(context_, args);
      for (int threads : {1, 3}) {
        OpMachine other(GetParam(), threads, {cpu::add_gemm});
        OpContext context = other.context();
        GemmArgs again = args;
        again.c = host_tensor(dtype, shapes.c);
        gemm(context, again);
        expect_same_bits(again.c, args.c);
      }
    }
  }
}

// A token's result is the same in a batch, alone, and at another place of a batch; a part of the
// columns equals those of the whole.
TEST_P(GemmTest, BitsDoNotDependOnTheSplit) {
  constexpr int64_t kTokens = 150, kOut = 270;
  for (int64_t depth : {64, 300, 1200}) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      const Tensor a = random_tensor(dtype, {kTokens, depth}, 1);
      const Tensor b = random_tensor(dtype, {kOut, depth}, 2);
      const Tensor whole = host_tensor(DType::f32, {kTokens, kOut});
      gemm(context_, {GemmForm::forward, a, b, whole});
      for (int64_t begin : {0, 1, 77, 149}) {
        const Tensor part = host_tensor(DType::f32, {kTokens - begin, kOut});
        gemm(context_, {GemmForm::forward, a.slice(0, begin, kTokens - begin), b, part});
        expect_same_bits(part, whole.slice(0, begin, kTokens - begin));
        for (const int64_t rows : {1, 2, 4, 7}) {
          if (begin + rows > kTokens) continue;
          const Tensor few = host_tensor(DType::f32, {rows, kOut});
          gemm(context_, {GemmForm::forward, a.slice(0, begin, rows), b, few});
          expect_same_bits(few, whole.slice(0, begin, rows));
        }
      }
    }
  }
}

TEST_P(GemmTest, F64RunsTheReference) {
  GemmArgs args{GemmForm::forward, random_tensor(DType::f64, {5, 9}, 1),
                random_tensor(DType::f64, {7, 9}, 2), host_tensor(DType::f64, {5, 7})};
  GemmArgs again = args;
  again.c = host_tensor(DType::f64, {5, 7});
  gemm(context_, args);
  reference::gemm(again);
  expect_same_bits(args.c, again.c);
  EXPECT_EQ(machine_.table().gemm.choose(args, machine_.table().traits).kernel, "reference");
}

TEST_P(GemmTest, RefusesWhatDoesNotFit) {
  const auto tensor = [](DType dtype, const Shape& shape) { return host_tensor(dtype, shape); };
  GemmArgs args{GemmForm::forward, tensor(DType::f32, {4, 8}), tensor(DType::f32, {6, 9}),
                tensor(DType::f32, {4, 6})};
  EXPECT_THAT([&] { gemm(context_, args); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("gemm forward: expected b of shape [6, 8]"),
                                              HasSubstr("got f32 [6, 9]"))));
  args.b = tensor(DType::bf16, {6, 8});
  EXPECT_THROW(gemm(context_, args), ShapeError);
  args.b = tensor(DType::f32, {6, 8});
  args.c = tensor(DType::bf16, {4, 6});
  EXPECT_THROW(gemm(context_, args), ShapeError);
  args.c = tensor(DType::f32, {4, 6});
  args.bias = tensor(DType::f32, {6});
  args.mode = WriteMode::accumulate;
  EXPECT_THROW(gemm(context_, args), ShapeError);
  args.bias = {};
  args.a = {};
  EXPECT_THROW(gemm(context_, args), ShapeError);
}

TEST_P(GemmTest, ChoosesOnSimWithoutStorage) {
  const auto device = make_sim_device();
  OpContext context{*device, machine_.table()};
  StepRecord record;
  device->set_record(&record);
  const auto tensor = [&](const Shape& shape) {
    return device->allocate(DType::bf16, shape, MemoryTag::other);
  };
  gemm(context, {GemmForm::forward, tensor({10, 20}), tensor({30, 20}), tensor({10, 30})});
  ASSERT_EQ(record.ops().size(), 1u);
  EXPECT_EQ(record.ops()[0].cost.total_flops(), 2.0 * 10 * 20 * 30);
  EXPECT_EQ(record.ops()[0].cost.bytes_read, 2 * (10 * 20 + 30 * 20));
  EXPECT_EQ(record.ops()[0].cost.bytes_written, 2 * 10 * 30);
}

TEST_P(GemmTest, ColumnSumMatchesTheReference) {
  for (const Shape& shape : {Shape{1, 1}, Shape{37, 70}, Shape{300, 523}, Shape{0, 9}}) {
    for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      for (WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        const Tensor x = random_strided(dtype, shape, 3, 5);
        const DType out = dtype == DType::f64 ? DType::f64 : DType::f32;
        ColumnSumArgs args{x, random_tensor(out, {shape[1]}, 6), mode};
        ColumnSumArgs exact{to_f64(x), to_f64(args.out), mode};
        ColumnSumArgs sums{test::magnitudes(x), test::magnitudes(args.out), mode};
        column_sum(context_, args);
        reference::column_sum(exact);
        reference::column_sum(sums);
        expect_close(args.out, exact.out, static_cast<double>(shape[0]), sums.out);
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
