// Products with packed weights: equal, bit by bit, to products that pack the weight themselves.

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/gemm.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr GemmForm kForms[] = {GemmForm::forward, GemmForm::data_gradient};

OperandForm packed_form(const OpTable& ops, GemmForm form, int64_t run = 0) {
  GemmRequest request{form, DType::bf16};
  request.run = run;
  request.packed = true;
  return gemm_operand_forms(ops, request).b;
}

class PackedWeightsTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (!reads_packed_weights(context_.ops, DType::bf16)) GTEST_SKIP() << "packs nothing";
  }
  Operand packed(GemmForm form, const Tensor& weight) {
    const OperandForm tiles = packed_form(context_.ops, form);
    // Previous content is overwritten, padding included.
    const Operand out(tiles, DType::bf16, weight.shape(),
                      random_tensor(DType::bf16, values_shape(tiles, weight.shape()), 9), Tensor());
    convert_operand(context_, {weight, out});
    return out;
  }
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, PackedWeightsTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(PackedWeightsTest, ProductsAreThoseOfTheCanonicalWeight) {
  struct Sizes {
    int64_t m, n, k;
  };
  const Sizes sizes[] = {{1, 48, 33},    {5, 1, 1},      {64, 128, 64},    {130, 65, 17},
                         {65, 129, 800}, {70, 1700, 40}, {130, 900, 1030}, {3, 7, 0},
                         {17, 20, 16000}};  // a second strip of rows, of one row
  uint64_t seed = 1;
  for (const Sizes& s : sizes) {
    for (const GemmForm form : kForms) {
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k);
        const bool forward = form == GemmForm::forward;
        const Tensor weight = random_strided(DType::bf16, {s.n, s.k}, 3, ++seed);
        GemmArgs args{form, random_strided(DType::bf16, {s.m, forward ? s.k : s.n}, 5, ++seed),
                      weight};
        args.mode = mode;
        const Shape shape{s.m, forward ? s.n : s.k};
        args.c = random_tensor(DType::bf16, shape, 77);
        gemm(context_, args);
        const Tensor expected = args.c;
        args.c = random_tensor(DType::bf16, shape, 77);
        args.b = packed(form, weight);
        gemm(context_, args);
        expect_same_bits(args.c, expected);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(PackedWeightsTest, RunsOfColumnsAreSlices) {
  const Tensor weight = random_tensor(DType::bf16, {150, 70}, 1);
  for (const GemmForm form : kForms) {
    const bool forward = form == GemmForm::forward;
    const int dim = forward ? 0 : 1;
    const Operand whole = packed(form, weight);
    EXPECT_THROW(whole.slice(dim, 8, 16), ShapeError);  // inside a tile
    const int64_t begin = 16, count = 41;
    GemmArgs args{form, random_tensor(DType::bf16, {20, forward ? 70 : 150}, 2),
                  weight.slice(dim, begin, count)};
    args.c = random_tensor(DType::f32, {20, count}, 3);
    gemm(context_, args);
    const Tensor expected = args.c;
    args.c = random_tensor(DType::f32, {20, count}, 4);
    args.b = whole.slice(dim, begin, count);
    gemm(context_, args);
    expect_same_bits(args.c, expected);
  }
}

TEST_P(PackedWeightsTest, RunsThatBeginInsideOfATileAreNotPacked) {
  for (const GemmForm form : kForms) {
    EXPECT_EQ(packed_form(context_.ops, form, 48), packed_form(context_.ops, form));
    EXPECT_TRUE(packed_form(context_.ops, form, 24).plain());
  }
}

TEST_P(PackedWeightsTest, GatedActivationsReadBothHalves) {
  for (const int64_t width : {48, 24}) {  // the other half of 24 begins inside a tile
    const Tensor weight = random_tensor(DType::bf16, {2 * width, 50}, 1);
    GemmArgs args{GemmForm::forward, random_tensor(DType::bf16, {70, 50}, 2), weight,
                  random_tensor(DType::bf16, {70, 2 * width}, 3)};
    args.epilogue.activated = random_tensor(DType::bf16, {70, width}, 4);
    args.epilogue.gated = true;
    gemm(context_, args);
    const Tensor product = args.c, activated = args.epilogue.activated;
    args.c = random_tensor(DType::bf16, {70, 2 * width}, 5);
    args.epilogue.activated = random_tensor(DType::bf16, {70, width}, 6);
    args.b = packed(GemmForm::forward, weight);
    if (width == 24) {
      EXPECT_THAT([&] { gemm(context_, args); },
                  ThrowsMessage<ShapeError>(HasSubstr("reads b in the form row-major, got bf16 "
                                                      "[48, 50] as bf16_tiles of 16x32 row-wise")));
      continue;
    }
    gemm(context_, args);
    expect_same_bits(args.c, product);
    expect_same_bits(args.epilogue.activated, activated);
  }
}

TEST_P(PackedWeightsTest, FormsOfAnotherProductAreRefused) {
  const Tensor weight = random_tensor(DType::bf16, {40, 70}, 1);
  GemmArgs args{GemmForm::forward, random_tensor(DType::bf16, {20, 70}, 2),
                packed(GemmForm::data_gradient, weight), random_tensor(DType::f32, {20, 40}, 3)};
  EXPECT_THAT([&] { gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("bf16_tiles of 16x32 column-wise")));
  args.b = weight;
  args.a = packed(GemmForm::forward, random_tensor(DType::bf16, {20, 70}, 2));
  EXPECT_THAT([&] { gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("reads a in the form row-major")));
  // A weight gradient has no weight as operand.
  EXPECT_TRUE(packed_form(context_.ops, GemmForm::weight_gradient).plain());
}

TEST_P(PackedWeightsTest, OtherFormsAreNotMade) {
  const Tensor weight = random_tensor(DType::bf16, {32, 32}, 1);
  const OperandForm scaled{.element = DType::i8, .scales = ScaleForm{DType::e8m0, {1, 32}}};
  const Operand out =
      allocate_operand(context_, scaled, DType::bf16, weight.shape(), MemoryTag::other);
  EXPECT_THAT(
      [&] {
        convert_operand(context_, {weight, out});
      },
      ThrowsMessage<DeviceError>(
          AllOf(HasSubstr("makes bf16_tiles of 16x32 row-wise of bf16, and row-major e4m3"),
                HasSubstr("not i8 row-major row-wise, e8m0 scales of 1x32 of bf16"))));
  EXPECT_THAT(
      [&] {
        convert_operand(context_, {weight, weight});
      },
      ThrowsMessage<ShapeError>(HasSubstr("out is row-major")));
}

TEST(PackedWeights, ProductsThatReadNoneRefuseThem) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_gemm});
  OpContext context = machine.context();
  EXPECT_FALSE(reads_packed_weights(context.ops, DType::bf16));
  const Tensor weight = random_tensor(DType::bf16, {16, 32}, 1);
  const OperandForm tiles{"bf16_tiles", Orientation::row_wise, {16, 32}};
  GemmArgs args{GemmForm::forward, random_tensor(DType::bf16, {4, 32}, 2), weight,
                random_tensor(DType::f32, {4, 16}, 3)};
  args.b = allocate_operand(context, tiles, DType::bf16, weight.shape(), MemoryTag::other);
  EXPECT_THAT([&] { gemm(context, args); },
              ThrowsMessage<ShapeError>(HasSubstr("cpu:portable reads b in the form row-major")));
  EXPECT_THROW(convert_operand(context, {weight, args.b}), DeviceError);
}

}  // namespace
}  // namespace viaduct
