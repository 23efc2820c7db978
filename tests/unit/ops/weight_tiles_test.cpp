// Products whose weight comes as tiles: bit by bit those that pack it themselves.

#include "ops/weight_tiles.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr GemmForm kForms[] = {GemmForm::forward, GemmForm::data_gradient};

class WeightTilesTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (!reads_weight_tiles(context_.ops, DType::bf16)) GTEST_SKIP() << "packs nothing";
  }
  Tensor tiles_of(GemmForm form, const Tensor& weight) {
    // Whatever lies there before is overwritten, padding too.
    const Tensor tiles = random_tensor(DType::bf16, weight_tiles_shape(form, weight.shape()), 9);
    pack_weight(context_, {form, weight, tiles});
    return tiles;
  }
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, WeightTilesTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(WeightTilesTest, ProductsAreThoseOfTheCanonicalWeight) {
  struct Sizes {
    int64_t m, n, k;
  };
  const Sizes sizes[] = {{1, 48, 33},    {5, 1, 1},      {64, 128, 64},    {130, 65, 17},
                         {65, 129, 800}, {70, 1700, 40}, {130, 900, 1030}, {3, 7, 0}};
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
        args.b_tiles = tiles_of(form, weight);
        gemm(context_, args);
        expect_same_bits(args.c, expected);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(WeightTilesTest, RunsOfColumnsAreSlices) {
  const Tensor weight = random_tensor(DType::bf16, {150, 70}, 1);
  for (const GemmForm form : kForms) {
    const bool forward = form == GemmForm::forward;
    const Tensor tiles = tiles_of(form, weight);
    EXPECT_FALSE(weight_tiles_columns(tiles, 8, 16));  // inside of a run
    const int64_t begin = 16, count = 41;
    GemmArgs args{form, random_tensor(DType::bf16, {20, forward ? 70 : 150}, 2),
                  weight.slice(forward ? 0 : 1, begin, count)};
    args.c = random_tensor(DType::f32, {20, count}, 3);
    gemm(context_, args);
    const Tensor expected = args.c;
    args.c = random_tensor(DType::f32, {20, count}, 4);
    args.b_tiles = weight_tiles_columns(tiles, begin, count);
    gemm(context_, args);
    expect_same_bits(args.c, expected);
  }
}

TEST_P(WeightTilesTest, GatedActivationsReadBothHalves) {
  for (const int64_t width : {48, 24}) {  // the other half of 24 begins inside of a run
    const Tensor weight = random_tensor(DType::bf16, {2 * width, 50}, 1);
    GemmArgs args{GemmForm::forward, random_tensor(DType::bf16, {70, 50}, 2), weight,
                  random_tensor(DType::bf16, {70, 2 * width}, 3)};
    args.epilogue.activated = random_tensor(DType::bf16, {70, width}, 4);
    args.epilogue.gated = true;
    gemm(context_, args);
    const Tensor product = args.c, activated = args.epilogue.activated;
    args.c = random_tensor(DType::bf16, {70, 2 * width}, 5);
    args.epilogue.activated = random_tensor(DType::bf16, {70, width}, 6);
    args.b_tiles = tiles_of(GemmForm::forward, weight);
    gemm(context_, args);
    expect_same_bits(args.c, product);
    expect_same_bits(args.epilogue.activated, activated);
  }
}

TEST_P(WeightTilesTest, TilesAreReadInPlaceOfTheWeight) {
  const Tensor weight = random_tensor(DType::bf16, {40, 50}, 1);
  GemmArgs args{GemmForm::forward, random_tensor(DType::bf16, {20, 50}, 2), weight,
                random_tensor(DType::f32, {20, 40}, 3)};
  gemm(context_, args);
  const std::vector<double> expected = test::values(args.c);
  const Tensor other = random_tensor(DType::bf16, {40, 50}, 5);
  args.b_tiles = tiles_of(GemmForm::forward, other);
  gemm(context_, args);
  EXPECT_NE(test::values(args.c), expected);
}

TEST_P(WeightTilesTest, TilesOfAnotherShapeAreRefused) {
  const Tensor weight = random_tensor(DType::bf16, {40, 70}, 1);
  GemmArgs args{GemmForm::forward, random_tensor(DType::bf16, {20, 70}, 2), weight,
                random_tensor(DType::f32, {20, 40}, 3)};
  args.b_tiles = tiles_of(GemmForm::data_gradient, weight);
  EXPECT_THAT([&] { gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("expected b_tiles of shape [3, 3, 512]")));
  EXPECT_THROW(weight_tiles_shape(GemmForm::weight_gradient, weight.shape()), ShapeError);
}

TEST(WeightTiles, ProductsThatReadNoneRefuseThem) {
  OpMachine machine(CpuIsa::avx2, 1, {cpu::add_gemm});
  OpContext context = machine.context();
  EXPECT_FALSE(reads_weight_tiles(context.ops, DType::bf16));
  const Tensor weight = random_tensor(DType::bf16, {16, 32}, 1);
  GemmArgs args{GemmForm::forward, random_tensor(DType::bf16, {4, 32}, 2), weight,
                random_tensor(DType::f32, {4, 16}, 3)};
  args.b_tiles =
      random_tensor(DType::bf16, weight_tiles_shape(GemmForm::forward, weight.shape()), 4);
  EXPECT_THAT([&] { gemm(context, args); }, ThrowsMessage<ShapeError>(HasSubstr("reads none")));
  EXPECT_THROW(pack_weight(context, {GemmForm::forward, weight, args.b_tiles}), DeviceError);
}

}  // namespace
}  // namespace viaduct
