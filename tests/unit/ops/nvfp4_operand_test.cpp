// NVFP4 operands of the cpu: elements and scales compared with their definition one by one;
// rotation, stochastic rounding, and products compared with those of the BF16 matrices that the
// operands represent.

#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "ops/quantized_forms.h"
#include "support/op_testing.h"
#include "tensor/hadamard.h"
#include "tensor/nvfp4.h"

namespace viaduct {
namespace {

using test::element;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::set_element;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Quantization kNvfp4{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2};
constexpr GemmForm kForms[] = {GemmForm::forward, GemmForm::data_gradient,
                               GemmForm::weight_gradient};

/// The elements of a matrix [R, C], rotated along its rows or not, by matrix products in FP64.
std::vector<double> contents(const Tensor& matrix, bool rotated) {
  const int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  std::vector<double> values(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      double sum = rotated ? 0 : element(matrix, r * columns + c);
      for (int i = 0; rotated && i < kRotated; ++i) {
        const double x = element(matrix, (r / kRotated * kRotated + i) * columns + c);
        const bool odd = std::popcount(static_cast<unsigned>(i & (r % kRotated))) % 2 == 1;
        sum += kRotationSigns[i] * x * (odd ? -0.25 : 0.25);
      }
      values[static_cast<size_t>(r * columns + c)] = sum;
    }
  }
  return values;
}

int code_at(const Operand& operand, int64_t row, int64_t column) {
  const auto* codes = static_cast<const uint8_t*>(operand.values().raw());
  const int byte = codes[row * operand.values().stride(0) + column / 2];
  return column % 2 == 0 ? byte & 15 : byte >> 4;
}

float scale_at(const Operand& operand, int64_t row, int64_t column) {
  const OperandForm& form = operand.form();
  const bool rows = form.orientation == Orientation::row_wise;
  const int64_t kept = (rows ? row : column) / form.scales->group.kept;
  const int64_t contracted = (rows ? column : row) / form.scales->group.contracted;
  return static_cast<float>(
      operand.scales().data<float8_e4m3>()[kept * operand.scales().stride(0) + contracted]);
}

float value_of(int code) {
  float4_e2m1 x;
  x.bits = static_cast<uint8_t>(code);
  return static_cast<float>(x);
}

/// The BF16 matrix that the operand represents, without the matrix scale.
Tensor widened(const Operand& operand) {
  const Tensor wide = host_tensor(DType::bf16, operand.shape());
  const int64_t columns = operand.dim(1);
  for (int64_t i = 0; i < wide.elements(); ++i) {
    const int64_t r = i / columns, c = i % columns;
    set_element(wide, i, value_of(code_at(operand, r, c)) * scale_at(operand, r, c));
  }
  return wide;
}

/// The random bits that round an element.
uint16_t random_of(const StochasticRounding& rounding, bool row_wise, int64_t row, int64_t column) {
  size_t run = 0;
  while (run + 1 < rounding.features.size() && rounding.features[run + 1].begin <= column) ++run;
  const uint64_t feature =
      rounding.features[run].first + static_cast<uint64_t>(column - rounding.features[run].begin);
  RandomKey key = rounding.key;
  key.path_hash += row_wise ? 1 : 2;
  const auto token = static_cast<uint64_t>(rounding.token_index.data<int64_t>()[row]);
  const uint32_t word = philox4x32(philox_key(key), token, feature / 8)[feature % 8 / 2];
  return static_cast<uint16_t>(feature % 2 == 0 ? word : word >> 16);
}

class Nvfp4OperandTest : public testing::TestWithParam<CpuIsa> {
 protected:
  Tensor amax_of(const Tensor& matrix) {
    const Tensor amax = host_tensor(DType::f32, {2});
    largest_magnitude(context_, {matrix, amax.slice(0, 0, 1)});
    if (matrix.dim(0) % kRotated == 0)
      largest_magnitude(context_, {matrix, amax.slice(0, 1, 1), true});
    return amax;
  }
  Operand quantized(const Tensor& matrix, const OperandForm& form,
                    const StochasticRounding& rounding = {}) {
    return operand_in(context_, matrix, form, MemoryTag::activations, amax_of(matrix), rounding);
  }
  void expect_by_definition(const Tensor& matrix, const OperandForm& form,
                            const StochasticRounding& rounding = {}) {
    SCOPED_TRACE(describe(matrix) + " as " + describe(form));
    const Operand actual = quantized(matrix, form, rounding);
    const std::vector<double> exact = contents(matrix, form.rotated);
    double amax = 0;
    for (const double x : exact) amax = std::max(amax, std::abs(x));
    const float matrix_scale = nvfp4_matrix_scale(static_cast<float>(amax));
    ASSERT_EQ(actual.matrix_scale().data<float>()[0], matrix_scale);
    const int64_t rows = matrix.dim(0), columns = matrix.dim(1);
    const bool row_wise = form.orientation == Orientation::row_wise;
    const OperandExtent group = form.scales->group;
    const int64_t high = row_wise ? group.kept : group.contracted;
    const int64_t wide = row_wise ? group.contracted : group.kept;
    for (int64_t r0 = 0; r0 < rows; r0 += high) {
      for (int64_t c0 = 0; c0 < columns; c0 += wide) {
        double most = 0;
        const auto for_group = [&](auto&& f) {
          for (int64_t r = r0; r < std::min(rows, r0 + high); ++r)
            for (int64_t c = c0; c < std::min(columns, c0 + wide); ++c)
              f(r, c, exact[static_cast<size_t>(r * columns + c)]);
        };
        for_group([&](int64_t, int64_t, double x) { most = std::max(most, std::abs(x)); });
        const auto scale =
            static_cast<float>(nvfp4_group_scale(static_cast<float>(most), matrix_scale));
        ASSERT_EQ(scale_at(actual, r0, c0), scale) << r0 << ", " << c0;
        for_group([&](int64_t r, int64_t c, double x) {
          const float steps = nvfp4_scaled(static_cast<float>(x), scale, matrix_scale);
          const float4_e2m1 code =
              rounding.defined()
                  ? float4_e2m1::stochastic(steps, random_of(rounding, row_wise, r, c))
                  : float4_e2m1(steps);
          ASSERT_EQ(code_at(actual, r, c), code.bits) << r << ", " << c << ": " << x;
        });
        if (HasFatalFailure()) return;
      }
    }
  }
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm, cpu::add_largest_magnitude}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, Nvfp4OperandTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

/// Multiples of 1/16 of at most 4 in magnitude: their rotation is exact in FP32.
Tensor sixteenths(DType dtype, const Shape& shape, uint64_t seed) {
  const Tensor x = random_tensor(dtype, shape, seed, 4);
  for (int64_t i = 0; i < x.elements(); ++i)
    set_element(x, i, std::nearbyint(element(x, i) * 16) / 16);
  return x;
}

std::vector<OperandForm> all_forms() {
  std::vector<OperandForm> forms;
  for (const GemmForm form : kForms) {
    const GemmForms both = quantized_forms(form, kNvfp4);
    forms.push_back(both.a), forms.push_back(both.b);
  }
  return forms;
}

TEST(Nvfp4Forms, AreThoseOfTheRecipe) {
  const GemmForms forward = quantized_forms(GemmForm::forward, kNvfp4);
  const GemmForms data = quantized_forms(GemmForm::data_gradient, kNvfp4);
  const GemmForms weight = quantized_forms(GemmForm::weight_gradient, kNvfp4);
  EXPECT_EQ(describe(forward.a), "e2m1x2 row-major row-wise, e4m3 scales of 1x16");
  EXPECT_EQ(describe(forward.b), "e2m1x2 row-major row-wise, e4m3 scales of 16x16");
  EXPECT_EQ(forward.a, data.a);
  EXPECT_EQ(forward.b, data.b) << "a weight is quantized once for both products";
  EXPECT_EQ(describe(weight.a), "e2m1x2 row-major column-wise rotated, e4m3 scales of 1x16");
  EXPECT_EQ(weight.a, weight.b);
  Quantization without = kNvfp4;
  without.weight_gradient = false;
  EXPECT_TRUE(quantized_forms(GemmForm::weight_gradient, without).a.plain());
}

TEST_P(Nvfp4OperandTest, ElementsAndScalesByTheirDefinition) {
  for (const OperandForm& form : all_forms()) {
    for (const DType dtype : test::kKernelDTypes) {
      for (const Shape& shape : {Shape{16, 16}, Shape{48, 300}, Shape{144, 1034}}) {
        expect_by_definition(sixteenths(dtype, shape, 1), form);
        if (!form.rotated) expect_by_definition(random_strided(dtype, shape, 3, 2), form);
        if (HasFatalFailure()) return;
      }
      // A group that is cut at the end.
      if (!form.rotated) expect_by_definition(random_tensor(dtype, {7, 22}, 3), form);
    }
  }
}

TEST_P(Nvfp4OperandTest, StochasticRoundingByItsDefinition) {
  StochasticRounding rounding{{1234, 56}, test::integers(DType::i64, {})};
  std::vector<int64_t> tokens(48);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * 7919 % 100003);
  rounding.token_index = test::integers(DType::i64, tokens);
  // Runs that begin anywhere, and numbers of features that are not multiples of 8.
  rounding.features = {{0, 3}, {22, (uint64_t{5} << 32) + 64}, {290, (uint64_t{9} << 32) + 1}};
  for (const GemmForm form : {GemmForm::data_gradient, GemmForm::weight_gradient}) {
    expect_by_definition(sixteenths(DType::bf16, {48, 300}, 1), quantized_forms(form, kNvfp4).a,
                         rounding);
    if (HasFatalFailure()) return;
  }
}

// A part of the tokens and features gets the same bits as in the whole.
TEST_P(Nvfp4OperandTest, StochasticRoundingDoesNotDependOnTheCut) {
  const OperandForm form = quantized_forms(GemmForm::data_gradient, kNvfp4).a;
  const Tensor whole = random_tensor(DType::f32, {32, 64}, 1);
  std::vector<int64_t> tokens(32);
  for (size_t i = 0; i < 32; ++i) tokens[i] = static_cast<int64_t>(1000 + i);
  const StochasticRounding all{{1, 2}, test::integers(DType::i64, tokens), {{0, 128}}};
  StochasticRounding cut = all.rows(16, 16);
  cut.features = {{0, 128 + 32}};
  const Tensor amax = amax_of(whole);
  const Operand a = operand_in(context_, whole, form, MemoryTag::activations, amax, all);
  const Operand b = operand_in(context_, whole.slice(0, 16, 16).slice(1, 32, 32), form,
                               MemoryTag::activations, amax, cut);
  const Operand c = operand_in(context_, whole, form, MemoryTag::activations, amax);
  int other = 0;
  for (int64_t r = 0; r < 16; ++r) {
    for (int64_t f = 0; f < 32; ++f) {
      ASSERT_EQ(code_at(b, r, f), code_at(a, 16 + r, 32 + f)) << r << ", " << f;
      other += code_at(c, 16 + r, 32 + f) != code_at(b, r, f) ? 1 : 0;
    }
  }
  EXPECT_GT(other, 50) << "it is not rounded to nearest";
}

TEST_P(Nvfp4OperandTest, ExtremeValues) {
  const OperandForm row = quantized_forms(GemmForm::forward, kNvfp4).a;
  const Tensor x = random_tensor(DType::f32, {16, 64}, 1);
  for (int64_t i = 0; i < 64; ++i) set_element(x, i, 0);                       // zeros
  for (int64_t i = 64; i < 128; ++i) set_element(x, i, 1e-9 * element(x, i));  // scale 0
  expect_by_definition(x, row);
  EXPECT_EQ(code_at(quantized(x, row), 1, 3) & 7, 0);
  const Tensor zeros = host_tensor(DType::f32, {16, 32});
  for (int64_t i = 0; i < zeros.elements(); ++i) set_element(zeros, i, 0);
  EXPECT_EQ(quantized(zeros, row).matrix_scale().data<float>()[0], 1);
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    set_element(x, 70, bad);
    for (const OperandForm& form : all_forms())
      EXPECT_TRUE(std::isnan(quantized(x, form).matrix_scale().data<float>()[0])) << bad;
  }
}

TEST_P(Nvfp4OperandTest, ProductsAreThoseOfTheWidenedMatrices) {
  struct Product {
    GemmForm form;
    Shape a, b, c;
  };
  const int64_t m = 80, n = 160, k = 400;
  for (const Product& of : {Product{GemmForm::forward, {m, k}, {n, k}, {m, n}},
                            Product{GemmForm::data_gradient, {m, n}, {n, k}, {m, k}},
                            Product{GemmForm::weight_gradient, {m, n}, {m, k}, {n, k}}}) {
    const GemmForms forms = quantized_forms(of.form, kNvfp4);
    GemmArgs args{of.form, quantized(random_tensor(DType::bf16, of.a, 1), forms.a),
                  quantized(random_tensor(DType::bf16, of.b, 2), forms.b),
                  host_tensor(DType::f32, of.c)};
    args.quantization = kNvfp4;
    gemm(context_, args);
    GemmArgs plain = args;
    plain.quantization = {};
    plain.a = widened(args.a), plain.b = widened(args.b);
    plain.c = host_tensor(DType::f32, of.c);
    gemm(context_, plain);
    const float factor =
        args.a.matrix_scale().data<float>()[0] * args.b.matrix_scale().data<float>()[0];
    for (int64_t i = 0; i < plain.c.elements(); ++i)
      ASSERT_EQ(args.c.data<float>()[i], plain.c.data<float>()[i] * factor) << i;
  }
}

// Rotating both operands leaves their product unchanged: exactly so without quantization.
TEST(Nvfp4Rotation, LeavesProductsAsTheyAre) {
  const Tensor a = sixteenths(DType::f32, {32, 3}, 1), b = sixteenths(DType::f32, {32, 3}, 2);
  const std::vector<double> x = contents(a, true), y = contents(b, true);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double plain = 0, rotated = 0;
      for (size_t t = 0; t < 32; ++t) {
        plain += element(a, static_cast<int64_t>(t * 3 + i)) *
                 element(b, static_cast<int64_t>(t * 3 + j));
        rotated += x[t * 3 + i] * y[t * 3 + j];
      }
      EXPECT_DOUBLE_EQ(rotated, plain);
    }
  }
}

TEST_P(Nvfp4OperandTest, ThreadsChangeNoBit) {
  OpMachine other{GetParam(), 3, {cpu::add_gemm, cpu::add_largest_magnitude}};
  OpContext with_three = other.context();
  const Tensor x = random_tensor(DType::bf16, {320, 700}, 4);
  const Tensor amax = amax_of(x);
  for (const OperandForm& form : all_forms()) {
    const Operand a = operand_in(context_, x, form, MemoryTag::activations, amax);
    const Operand b = operand_in(with_three, x, form, MemoryTag::activations, amax);
    EXPECT_EQ(
        std::memcmp(a.values().raw(), b.values().raw(), static_cast<size_t>(a.values().bytes())),
        0);
    EXPECT_EQ(
        std::memcmp(a.scales().raw(), b.scales().raw(), static_cast<size_t>(a.scales().bytes())),
        0);
  }
}

TEST_P(Nvfp4OperandTest, RefusesWhatItCannotHold) {
  const OperandForm row = quantized_forms(GemmForm::forward, kNvfp4).a;
  const OperandForm rotated = quantized_forms(GemmForm::weight_gradient, kNvfp4).a;
  EXPECT_THAT(
      [&] {
        quantized(random_tensor(DType::f32, {16, 15}, 1), row);
      },
      ThrowsMessage<ShapeError>(HasSubstr("two elements share a byte, got 15")));
  EXPECT_THAT(
      [&] {
        quantized(random_tensor(DType::f32, {24, 16}, 1), rotated);
      },
      ThrowsMessage<ShapeError>(HasSubstr("16 elements are rotated together, got 24")));
  const Operand x = quantized(random_tensor(DType::f32, {32, 64}, 1), row);
  EXPECT_EQ(x.slice(1, 16, 32).values().shape(), (Shape{32, 16}));
  EXPECT_EQ(x.slice(1, 16, 32).scales().shape(), (Shape{32, 2}));
  EXPECT_EQ(code_at(x.slice(1, 16, 32), 3, 5), code_at(x, 3, 21));
  EXPECT_EQ(x.bytes(), 32 * 64 / 2 + 32 * 4 + 4) << "4.5 bits an element";
  EXPECT_THROW(x.slice(1, 8, 16), ShapeError);
  const Operand columns = quantized(random_tensor(DType::f32, {32, 64}, 1), rotated);
  EXPECT_THROW(columns.slice(1, 1, 2), ShapeError) << "half a byte";
  EXPECT_EQ(columns.slice(1, 2, 4).values().shape(), (Shape{32, 2}));
}

}  // namespace
}  // namespace viaduct
