// NVFP4 codes of a weight that is cut into parts: the bits of the whole matrix's operand, wherever
// it is cut.

#include "ops/square_codes.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "ops/convert_operand.h"
#include "ops/largest_magnitude.h"
#include "ops/quantized_forms.h"
#include "support/op_testing.h"
#include "tensor/number_formats.h"

namespace viaduct {
namespace {

using test::element;
using test::expect_same_bits;
using test::OpMachine;
using test::random_tensor;
using test::set_element;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Quantization kNvfp4{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2};

int64_t squares(int64_t size) {
  return (size + 15) / 16;
}

class SquareCodesTest : public testing::TestWithParam<CpuIsa> {
 protected:
  static Tensor zeros(DType dtype, const Shape& shape) { return host_tensor(dtype, shape); }

  /// The matrix's magnitudes by squares, made of parts [cuts[i], cuts[i + 1]) of it in turn.
  Tensor magnitudes_of(const Tensor& matrix, const std::vector<int64_t>& cuts) {
    const Tensor made = host_tensor(DType::f32, {squares(matrix.dim(0)), squares(matrix.dim(1))});
    for (int64_t i = 0; i < made.elements(); ++i) set_element(made, i, 0);
    const Tensor flat = matrix.view({matrix.elements()});
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      square_magnitudes(
          context_, {flat.slice(0, cuts[i], cuts[i + 1] - cuts[i]), cuts[i], matrix.dim(1), made});
    return made;
  }

  /// The operand that is made of these parts.
  Operand of_parts(const Tensor& matrix, const std::vector<int64_t>& cuts) {
    const Tensor magnitudes = magnitudes_of(matrix, cuts);
    const Tensor amax = host_tensor(DType::f32, {1});
    largest_magnitude(context_, {magnitudes, amax});
    const OperandForm form = quantized_forms(GemmForm::forward, kNvfp4).b;
    const Operand out =
        allocate_operand(context_, form, matrix.dtype(), matrix.shape(), MemoryTag::weights);
    square_scales(context_, {magnitudes, amax, out.scales(), out.matrix_scale()});
    const Tensor flat = matrix.view({matrix.elements()});
    const Tensor codes = out.values().view({matrix.elements() / 2});
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const int64_t n = cuts[i + 1] - cuts[i];
      square_codes(context_, {flat.slice(0, cuts[i], n), cuts[i], matrix.dim(1), out.scales(),
                              out.matrix_scale(), codes.slice(0, cuts[i] / 2, n / 2)});
    }
    return out;
  }

  Operand of_matrix(const Tensor& matrix) {
    const Tensor amax = host_tensor(DType::f32, {1});
    largest_magnitude(context_, {matrix, amax});
    return operand_in(context_, matrix, quantized_forms(GemmForm::forward, kNvfp4).b,
                      MemoryTag::weights, amax);
  }

  void expect_same_operand(const Operand& actual, const Operand& expected) {
    expect_same_bits(actual.matrix_scale(), expected.matrix_scale());
    expect_same_bits(actual.scales(), expected.scales());
    expect_same_bits(actual.values(), expected.values());
  }

  OpMachine machine_{
      GetParam(), 2, {cpu::add_gemm, cpu::add_largest_magnitude, cpu::add_square_codes}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, SquareCodesTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

/// Even cuts: in the middle of a square, of a row, of nothing; parts of less than a row.
std::vector<std::vector<int64_t>> cuts_of(const Shape& shape) {
  const int64_t all = shape.elements(), row = shape[1];
  const auto even = [](int64_t x) { return x / 2 * 2; };
  return {{0, all},
          {0, even(all / 2), all},
          {0, even(all / 3), even(2 * all / 3), all},
          {0, 6, 22, row, row + 2, all},
          {0, row * 5, row * 9 + 38, row * 9 + 40, all}};
}

TEST_P(SquareCodesTest, PartsHaveTheBitsOfTheWholeMatrix) {
  for (const DType dtype : test::kKernelDTypes) {
    for (const Shape& shape :
         {Shape{16, 64}, Shape{48, 300}, Shape{144, 1034}, Shape{23, 50}, Shape{1000, 48}}) {
      const Tensor matrix = random_tensor(dtype, shape, 7, 3);
      const Operand expected = of_matrix(matrix);
      for (const auto& cuts : cuts_of(shape)) {
        SCOPED_TRACE(describe(matrix) + " in parts " + testing::PrintToString(cuts));
        expect_same_operand(of_parts(matrix, cuts), expected);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(SquareCodesTest, MagnitudesByTheirDefinition) {
  const Tensor matrix = random_tensor(DType::bf16, {40, 38}, 3);
  const Tensor made = magnitudes_of(matrix, {0, 100, 777, 40 * 38});
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < 3; ++c) {
      double most = 0;
      for (int64_t i = r * 16; i < std::min<int64_t>(40, r * 16 + 16); ++i)
        for (int64_t j = c * 16; j < std::min<int64_t>(38, c * 16 + 16); ++j)
          most = std::max(most, std::abs(element(matrix, i * 38 + j)));
      EXPECT_EQ(element(made, r * 3 + c), most) << r << ", " << c;
    }
  }
}

// What other parts found stays; an element that is not finite counts as infinity.
TEST_P(SquareCodesTest, MagnitudesOnlyGrow) {
  const Tensor matrix = random_tensor(DType::f32, {32, 32}, 3);
  const Tensor flat = matrix.view({1024});
  const Tensor made = host_tensor(DType::f32, {2, 2});
  for (int64_t i = 0; i < 4; ++i) set_element(made, i, i == 2 ? 9 : 0);
  square_magnitudes(context_, {flat, 0, 32, made});
  EXPECT_EQ(element(made, 2), 9);
  EXPECT_LT(element(made, 3), 9);
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    set_element(matrix, 33, bad);
    const Tensor again = magnitudes_of(matrix, {0, 34, 1024});
    EXPECT_EQ(element(again, 0), INFINITY) << bad;
    EXPECT_LT(element(again, 1), 2);
    const Operand operand = of_parts(matrix, {0, 34, 1024});
    EXPECT_TRUE(std::isnan(operand.matrix_scale().data<float>()[0]));
    expect_same_bits(operand.values(), of_matrix(matrix).values());
  }
}

TEST_P(SquareCodesTest, SmallSquaresAndZeros) {
  const Tensor matrix = random_tensor(DType::bf16, {48, 64}, 5);
  for (int64_t i = 0; i < 48; ++i) {
    for (int64_t j = 0; j < 32; ++j)  // a square of zeros, and one with the scale 0
      set_element(matrix, i * 64 + j, j < 16 ? 0 : 1e-9 * element(matrix, i * 64 + j));
  }
  expect_same_operand(of_parts(matrix, {0, 70, 1000, 48 * 64}), of_matrix(matrix));
  for (int64_t i = 0; i < matrix.elements(); ++i) set_element(matrix, i, 0);
  const Operand none = of_parts(matrix, {0, 70, 48 * 64});
  EXPECT_EQ(none.matrix_scale().data<float>()[0], 1);
  expect_same_operand(none, of_matrix(matrix));
}

// Of a matrix whose other rows are on another tensor rank, with larger elements.
TEST_P(SquareCodesTest, TheMatrixScaleIsForTheGivenMagnitude) {
  const Tensor whole = random_tensor(DType::bf16, {64, 48}, 5);
  set_element(whole, 40 * 48, 100);
  const Operand expected = of_matrix(whole);
  const Tensor matrix = whole.slice(0, 0, 32);
  const Tensor magnitudes = magnitudes_of(matrix, {0, 32 * 48});
  const Tensor amax = host_tensor(DType::f32, {1});
  largest_magnitude(context_, {whole, amax});
  const Tensor scales = host_tensor(DType::e4m3, {2, 3}), scale = host_tensor(DType::f32, {1});
  square_scales(context_, {magnitudes, amax, scales, scale});
  expect_same_bits(scale, expected.matrix_scale());
  expect_same_bits(scales, expected.scales().slice(0, 0, 2));
}

TEST_P(SquareCodesTest, ThreadsChangeNoBit) {
  OpMachine other{GetParam(), 3, {cpu::add_square_codes}};
  OpContext with_three = other.context();
  const Tensor matrix = random_tensor(DType::bf16, {330, 700}, 4);
  const Tensor flat = matrix.view({matrix.elements()});
  const Operand expected = of_matrix(matrix);
  const Tensor magnitudes = magnitudes_of(matrix, {0, matrix.elements()});
  const Tensor again = host_tensor(DType::f32, magnitudes.shape());
  for (int64_t i = 0; i < again.elements(); ++i) set_element(again, i, 0);
  square_magnitudes(with_three, {flat, 0, 700, again});
  expect_same_bits(again, magnitudes);
  const Tensor codes = host_tensor(DType::e2m1x2, {matrix.elements() / 2});
  square_codes(with_three, {flat, 0, 700, expected.scales(), expected.matrix_scale(), codes});
  expect_same_bits(codes, expected.values().view({matrix.elements() / 2}));
}

TEST_P(SquareCodesTest, ANothingHasNoPlace) {
  const Tensor made = host_tensor(DType::f32, {2, 2});
  for (int64_t i = 0; i < 4; ++i) set_element(made, i, 3);
  square_magnitudes(context_, {host_tensor(DType::bf16, {0}), 64, 32, made});
  EXPECT_EQ(element(made, 0), 3);
}

TEST_P(SquareCodesTest, RefusesWhatIsOutsideOrOdd) {
  const Tensor part = random_tensor(DType::bf16, {64}, 1);
  const Tensor two = host_tensor(DType::f32, {2, 2}), scale = host_tensor(DType::f32, {1});
  const Tensor scales = host_tensor(DType::e4m3, {2, 2});
  EXPECT_THAT(
      [&] {
        square_magnitudes(context_, {part, 32 * 32 - 63, 32, two});
      },
      ThrowsMessage<ShapeError>(HasSubstr("elements 961 to 1025 of a matrix with 32")));
  EXPECT_THAT(
      [&] {
        square_magnitudes(context_, {part, 0, 33, two});
      },
      ThrowsMessage<ShapeError>(HasSubstr("are not in its squares of 16 x 16")));
  EXPECT_THAT(
      [&] {
        square_codes(context_, {part, 1, 32, scales, scale, host_tensor(DType::e2m1x2, {32})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("two elements share a byte, got 64 elements from 1 on")));
  EXPECT_THAT(
      [&] {
        square_codes(context_, {part, 0, 32, scales, scale, host_tensor(DType::e2m1x2, {64})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("codes")));
  EXPECT_THAT(
      [&] {
        square_scales(context_, {two, scale, host_tensor(DType::e4m3, {2, 3}), scale});
      },
      ThrowsMessage<ShapeError>(HasSubstr("scales")));
}

}  // namespace
}  // namespace viaduct
