// Measurements of quantized operands: the definition on matrices with known counts, and the op
// beside the definition, whose operands are those of `convert_operand`.

#include "ops/reference/quantization_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/convert_operand.h"
#include "ops/largest_magnitude.h"
#include "ops/quantized_forms.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::OpMachine;
using test::set_element;

const OperandForm kE4m3{kRowMajor, Orientation::row_wise, {}, DType::e4m3, ScaleForm{}};
const Quantization kNvfp4{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2};

struct Scheme {
  const char* name;
  Quantization quantization;
};
const Scheme kSchemes[] = {
    {"tensor", {Scaling::tensor, DType::e4m3, DType::e5m2}},
    {"blocks", {Scaling::blocks, DType::e4m3, DType::e5m2}},
    {"mx", {Scaling::mx, DType::e4m3, DType::e4m3}},
    {"nvfp4", kNvfp4},
};

class QuantizationErrorTest : public testing::TestWithParam<CpuIsa> {
 protected:
  /// f32 [1] where the form has a scale of the whole matrix.
  Tensor amax_of(const Tensor& matrix, const OperandForm& form) {
    if (!has_matrix_scale(form)) return {};
    const Tensor amax = host_tensor(DType::f32, {1});
    largest_magnitude(context_, {matrix, amax});
    return amax;
  }
  Operand made(const Tensor& matrix, const OperandForm& form, float most) {
    const Tensor amax = host_tensor(DType::f32, {1});
    amax.data<float>()[0] = most;
    return operand_in(context_, matrix, form, MemoryTag::activations,
                      has_matrix_scale(form) ? amax : Tensor());
  }
  Operand made(const Tensor& matrix, const OperandForm& form,
               const StochasticRounding& rounding = {}) {
    const Operand out =
        allocate_operand(context_, form, matrix.dtype(), matrix.shape(), MemoryTag::activations);
    convert_operand(context_, {matrix, out, amax_of(matrix, form), rounding});
    return out;
  }
  /// Sums of nothing.
  static Tensor no_sums(int64_t matrices) {
    const Tensor sums = host_tensor(DType::f64, {matrices, kErrorSums});
    std::fill_n(sums.data<double>(), sums.elements(), 0.0);
    return sums;
  }
  static QuantizationError figures(const Tensor& sums, int64_t matrix = 0) {
    return error_of_sums(sums.data<double>() + matrix * kErrorSums);
  }

  OpMachine machine_{
      GetParam(), 3, {cpu::add_gemm, cpu::add_quantization_error, cpu::add_largest_magnitude}};
  OpContext context_ = machine_.context();
};
INSTANTIATE_TEST_SUITE_P(Isas, QuantizationErrorTest, testing::ValuesIn(test::testable_isas()));

/// Numbers are exact; sums of squares have the error of `terms` additions in FP64.
void expect_figures(const QuantizationError& found, const QuantizationError& expected) {
  EXPECT_EQ(found.elements, expected.elements);
  EXPECT_EQ(found.nonzero, expected.nonzero);
  EXPECT_EQ(found.underflows, expected.underflows);
  EXPECT_EQ(found.overflows, expected.overflows);
  EXPECT_EQ(found.not_finite, expected.not_finite);
  EXPECT_EQ(found.amax, expected.amax);
  EXPECT_EQ(found.least_scale, expected.least_scale);
  EXPECT_EQ(found.most_scale, expected.most_scale);
  const double bound = expected.elements * std::numeric_limits<double>::epsilon();
  EXPECT_NEAR(found.square, expected.square, bound * expected.square);
  if (std::isnan(expected.error_square)) {
    EXPECT_TRUE(std::isnan(found.error_square));
  } else {
    EXPECT_NEAR(found.error_square, expected.error_square, bound * expected.error_square);
  }
}

// With a scale of 1: 500 saturates to 448, 2^-11 becomes 0, 17 becomes 16 or 18.
TEST_P(QuantizationErrorTest, CountsWhatAnE4m3TensorLoses) {
  const Tensor x = host_tensor(DType::f32, {2, 4});
  const double values[] = {500, -1, 0, 0x1p-11, 17, 2, -600, 0.5};
  for (int i = 0; i < 8; ++i) set_element(x, i, values[i]);
  const Operand operand = made(x, kE4m3, 448);
  const Tensor sums = no_sums(1);
  quantization_error(context_, {.matrix = x, .operand = operand, .sums = sums});
  for (const QuantizationError& e : {reference::quantization_error(x, operand), figures(sums)}) {
    EXPECT_EQ(e.elements, 8);
    EXPECT_EQ(e.nonzero, 7);
    EXPECT_EQ(e.underflows, 1);
    EXPECT_EQ(e.overflows, 2);
    EXPECT_EQ(e.not_finite, 0);
    EXPECT_EQ(e.amax, 600);
    EXPECT_EQ(e.least_scale, 1);
    EXPECT_EQ(e.most_scale, 1);
    const double lost = 52 * 52 + 152 * 152 + 1 + 0x1p-22;
    EXPECT_DOUBLE_EQ(e.error_square, lost);
    EXPECT_DOUBLE_EQ(e.relative_error(), std::sqrt(lost / e.square));
  }
}

TEST_P(QuantizationErrorTest, KnowsTheScalesOfGroupsAndOfTheMatrix) {
  const OperandForm form = quantized_forms(GemmForm::forward, kNvfp4).a;
  const Tensor x = host_tensor(DType::bf16, {1, 32});
  for (int i = 0; i < 32; ++i) set_element(x, i, i < 16 ? 6 : 0.75);
  const QuantizationError e = reference::quantization_error(x, made(x, form, 6));
  const float matrix_scale = 6 / 2688.0f;
  EXPECT_EQ(e.most_scale, 448 * matrix_scale);
  EXPECT_EQ(e.least_scale, 56 * matrix_scale) << "0.75 / 6 in units of the matrix scale";
  EXPECT_LT(e.relative_error(), 1e-6) << "both are 6 times their scale";
}

TEST_P(QuantizationErrorTest, MergesSums) {
  QuantizationError a, b;
  a.merge(b);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.elements, 0);
  b.elements = 4, b.least_scale = 2, b.most_scale = 3, b.amax = 1;
  a.merge(b);
  EXPECT_EQ(a.least_scale, 2);
  b.least_scale = 1, b.most_scale = 2, b.amax = 5, b.overflows = 1;
  a.merge(b);
  EXPECT_EQ(a.elements, 8);
  EXPECT_EQ(a.least_scale, 1);
  EXPECT_EQ(a.most_scale, 3);
  EXPECT_EQ(a.amax, 5);
  EXPECT_EQ(a.overflows, 1);
}

// One row, rows of several parts, runs of columns that end early, more runs than lanes.
TEST_P(QuantizationErrorTest, IsThatOfTheDefinition) {
  for (const Scheme& scheme : kSchemes) {
    for (const GemmForm product : {GemmForm::forward, GemmForm::data_gradient}) {
      const OperandForm form = quantized_forms(product, scheme.quantization).a;
      for (const DType dtype : test::kKernelDTypes) {
        for (const Shape& shape : {Shape{1, 6}, Shape{37, 330}, Shape{130, 64}}) {
          SCOPED_TRACE(std::string(scheme.name) + " " + to_string(shape) + " " +
                       std::string(dtype_name(dtype)));
          // Strided rows are read one element at a time on a GPU.
          const Tensor x = shape[1] == 330 ? test::random_strided(dtype, shape, 3, 1, 2)
                                           : test::random_tensor(dtype, shape, 1, 2);
          StochasticRounding rounding;
          if (product == GemmForm::data_gradient && form.element == DType::e2m1x2) {
            std::vector<int64_t> tokens(static_cast<size_t>(shape[0]));
            std::iota(tokens.begin(), tokens.end(), 1000);
            rounding = {{7, 9}, test::integers(DType::i64, tokens), {{0, 40}, {2, 900}}};
          }
          const Operand operand = made(x, form, rounding);
          const QuantizationError expected = reference::quantization_error(x, operand);
          EXPECT_GT(expected.error_square, 0);
          const Tensor here = no_sums(1), earlier = no_sums(1);
          quantization_error(context_, {.matrix = x,
                                        .form = form,
                                        .sums = here,
                                        .amax = amax_of(x, form),
                                        .rounding = rounding});
          expect_figures(figures(here), expected);
          quantization_error(context_, {.matrix = x, .operand = operand, .sums = earlier});
          test::expect_same_bits(earlier, here);
        }
      }
    }
  }
}

// No row, one row, and rows that belong to nobody, which are NaN.
TEST_P(QuantizationErrorTest, OfExpertsIsThatOfTheirOwnRows) {
  const std::vector<int64_t> offsets{0, 37, 37, 38, 70};
  const int64_t experts = 4, columns = 96, rows = 75;
  for (const Scheme& scheme : kSchemes) {
    for (const GemmForm product : {GemmForm::forward, GemmForm::data_gradient}) {
      SCOPED_TRACE(scheme.name);
      const OperandForm form = quantized_forms(product, scheme.quantization).a;
      const Tensor x = test::random_tensor(DType::bf16, {rows, columns}, 3);
      for (int64_t i = 0; i < x.elements(); ++i) {
        const double expert = i / columns < 37 ? 1 : 8;
        set_element(x, i, i / columns < 70 ? test::element(x, i) * expert : NAN);
      }
      QuantizationErrorArgs args{.matrix = x, .form = form, .sums = no_sums(experts)};
      args.offsets = test::integers(DType::i32, offsets);
      if (has_matrix_scale(form)) {
        args.amax = host_tensor(DType::f32, {experts});
        largest_magnitude(context_, {x, args.amax, false, args.offsets});
      }
      if (product == GemmForm::data_gradient && form.element == DType::e2m1x2) {
        args.rounding = {{7, 9}, test::integers(DType::i64, {1000}), {}};
        for (int64_t e = 0; e < experts; ++e)
          args.rounding.features.push_back({e * columns, static_cast<uint64_t>(3000 * e)});
      }
      quantization_error(context_, args);
      for (int64_t e = 0; e < experts; ++e) {
        SCOPED_TRACE(e);
        const int64_t begin = offsets[static_cast<size_t>(e)];
        const int64_t count = offsets[static_cast<size_t>(e + 1)] - begin;
        if (count == 0) {
          EXPECT_EQ(figures(args.sums, e), QuantizationError());
          continue;
        }
        StochasticRounding rounding;
        if (args.rounding.defined()) {
          std::vector<int64_t> tokens(static_cast<size_t>(count));
          std::iota(tokens.begin(), tokens.end(), 1000);
          rounding = {
              {7, 9}, test::integers(DType::i64, tokens), {{0, static_cast<uint64_t>(3000 * e)}}};
        }
        const Tensor own = x.slice(0, begin, count);
        expect_figures(figures(args.sums, e),
                       reference::quantization_error(own, made(own, form, rounding)));
      }
    }
  }
}

TEST_P(QuantizationErrorTest, OfAStackIsThatOfEachWeight) {
  const int64_t experts = 3, rows = 144, columns = 160;
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    const OperandForm form = quantized_forms(GemmForm::forward, scheme.quantization).b;
    const Tensor weights = test::random_tensor(DType::bf16, {experts * rows, columns}, 4);
    for (int64_t i = 0; i < weights.elements(); ++i)
      set_element(weights, i, test::element(weights, i) * (1 << 3 * (i / (rows * columns))));
    const Operand stack = allocate_stack(context_, experts, form, DType::bf16, {rows, columns},
                                         MemoryTag::activations);
    const Tensor sums = no_sums(experts);
    for (int64_t e = 0; e < experts; ++e) {
      const Tensor own = weights.slice(0, e * rows, rows);
      convert_operand(context_, {own, stack.member(e), amax_of(own, form)});
    }
    quantization_error(context_, {.matrix = weights, .operand = stack, .sums = sums});
    for (int64_t e = 0; e < experts; ++e)
      expect_figures(figures(sums, e), reference::quantization_error(
                                           weights.slice(0, e * rows, rows), stack.member(e)));
  }
}

TEST_P(QuantizationErrorTest, AddsToWhatIsThere) {
  const OperandForm form = quantized_forms(GemmForm::forward, kSchemes[1].quantization).a;
  const Tensor a = test::random_tensor(DType::bf16, {40, 200}, 5, 0.5);
  const Tensor b = test::random_tensor(DType::bf16, {9, 200}, 6, 30);
  const Tensor sums = no_sums(1), none = test::random_tensor(DType::bf16, {0, 200}, 7);
  quantization_error(context_, {.matrix = none, .form = form, .sums = sums});
  EXPECT_EQ(figures(sums), QuantizationError());
  QuantizationError expected;
  for (const Tensor& x : {a, b, none}) {
    quantization_error(context_, {.matrix = x, .form = form, .sums = sums});
    if (x.elements() > 0) expected.merge(reference::quantization_error(x, made(x, form)));
  }
  expect_figures(figures(sums), expected);
}

// A group of 128 columns with an element that is not finite has the scale NaN, and no error; the
// others have theirs.
TEST_P(QuantizationErrorTest, ElementsThatAreNotFiniteAreCountedApart) {
  const OperandForm blocks = quantized_forms(GemmForm::forward, kSchemes[1].quantization).a;
  const Tensor x = test::random_tensor(DType::f32, {20, 256}, 8);
  set_element(x, 0, NAN), set_element(x, 3 * 256 + 5, -INFINITY);
  const Tensor sums = no_sums(1);
  quantization_error(context_, {.matrix = x, .form = blocks, .sums = sums});
  const QuantizationError found = figures(sums);
  expect_figures(found, reference::quantization_error(x, made(x, blocks)));
  EXPECT_EQ(found.not_finite, 2);
  EXPECT_TRUE(std::isnan(found.error_square));
  EXPECT_FALSE(std::signbit(found.error_square));
  EXPECT_GT(found.least_scale, 0);
  EXPECT_LT(found.most_scale, 1);

  const Tensor all = host_tensor(DType::f32, {1, 4});
  for (int i = 0; i < 4; ++i) set_element(all, i, i < 2 ? INFINITY : i - 1);
  const Tensor of_matrix = no_sums(1);
  quantization_error(context_,
                     {.matrix = all, .operand = made(all, kE4m3, INFINITY), .sums = of_matrix});
  EXPECT_EQ(figures(of_matrix).not_finite, 2);
  EXPECT_EQ(figures(of_matrix).amax, 2);
  EXPECT_EQ(figures(of_matrix).least_scale, INFINITY) << "no element has a scale";
}

TEST_P(QuantizationErrorTest, ThreadsDoNotChangeABit) {
  OpMachine one(GetParam(), 1,
                {cpu::add_gemm, cpu::add_quantization_error, cpu::add_largest_magnitude});
  OpContext context = one.context();
  const OperandForm form = quantized_forms(GemmForm::forward, kNvfp4).a;
  const Tensor x = test::random_tensor(DType::bf16, {150, 400}, 9);
  const Tensor three = no_sums(1), single = no_sums(1);
  quantization_error(context_,
                     {.matrix = x, .form = form, .sums = three, .amax = amax_of(x, form)});
  quantization_error(context,
                     {.matrix = x, .form = form, .sums = single, .amax = amax_of(x, form)});
  test::expect_same_bits(three, single);
}

TEST_P(QuantizationErrorTest, RefusesWhatItCannotMeasure) {
  const Tensor x = test::random_tensor(DType::f32, {16, 16}, 1), sums = no_sums(1);
  const OperandForm rotated = quantized_forms(GemmForm::weight_gradient, kNvfp4).a;
  EXPECT_THROW(reference::quantization_error(x, made(x, rotated, 1)), ShapeError);
  const Operand good = made(x, kE4m3, 1);
  const auto refused = [&](const QuantizationErrorArgs& args) {
    EXPECT_THROW(quantization_error(context_, args), ShapeError);
  };
  refused({.matrix = x, .operand = made(x, rotated, 1), .sums = sums});
  refused({.matrix = x, .operand = Operand(x), .sums = sums});
  refused({.matrix = x.slice(0, 0, 8), .operand = good, .sums = sums});
  refused({.matrix = x, .operand = good, .sums = no_sums(2)});
  refused({.matrix = x, .form = kE4m3, .sums = sums});  // without amax
  refused({.matrix = x,
           .form = kE4m3,
           .sums = no_sums(2),
           .amax = test::random_tensor(DType::f32, {2}, 1)});
  refused({.matrix = x, .operand = good, .sums = host_tensor(DType::f64, {1, kErrorSums + 1})});
  refused({.matrix = x, .operand = good, .sums = host_tensor(DType::f32, {1, kErrorSums})});
  refused({.matrix = test::to_f64(x), .operand = good, .sums = sums});
  refused(
      {.matrix = x, .operand = good, .sums = sums, .offsets = test::integers(DType::i32, {0, 16})});
}

}  // namespace
}  // namespace viaduct
