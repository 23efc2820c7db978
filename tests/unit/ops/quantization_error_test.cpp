// Measurements of quantized operands, on matrices with known counts.

#include "ops/reference/quantization_error.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "ops/quantized_forms.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using reference::quantization_error;
using reference::QuantizationError;
using test::OpMachine;
using test::set_element;

class QuantizationErrorTest : public testing::Test {
 protected:
  Operand made(const Tensor& matrix, const OperandForm& form, float most) {
    const Tensor amax = host_tensor(DType::f32, {1});
    amax.data<float>()[0] = most;
    return operand_in(context_, matrix, form, MemoryTag::activations,
                      has_matrix_scale(form) ? amax : Tensor());
  }
  OpMachine machine_{CpuIsa::portable, 1, {cpu::add_gemm}};
  OpContext context_ = machine_.context();
};

// With a scale of 1: 500 saturates to 448, 2^-11 becomes 0, 17 becomes 16 or 18.
TEST_F(QuantizationErrorTest, CountsWhatAnE4m3TensorLoses) {
  const OperandForm form{kRowMajor, Orientation::row_wise, {}, DType::e4m3, ScaleForm{}};
  const Tensor x = host_tensor(DType::f32, {2, 4});
  const double values[] = {500, -1, 0, 0x1p-11, 17, 2, -600, 0.5};
  for (int i = 0; i < 8; ++i) set_element(x, i, values[i]);
  const QuantizationError e = quantization_error(x, made(x, form, 448));
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

TEST_F(QuantizationErrorTest, KnowsTheScalesOfGroupsAndOfTheMatrix) {
  const OperandForm form =
      quantized_forms(GemmForm::forward, {Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}).a;
  const Tensor x = host_tensor(DType::bf16, {1, 32});
  for (int i = 0; i < 32; ++i) set_element(x, i, i < 16 ? 6 : 0.75);
  const QuantizationError e = quantization_error(x, made(x, form, 6));
  const float matrix_scale = 6 / 2688.0f;
  EXPECT_EQ(e.most_scale, 448 * matrix_scale);
  EXPECT_EQ(e.least_scale, 56 * matrix_scale) << "0.75 / 6 in units of the matrix scale";
  EXPECT_LT(e.relative_error(), 1e-6) << "both are 6 times their scale";
}

TEST_F(QuantizationErrorTest, ElementsThatAreNotFiniteAreCountedApart) {
  const OperandForm form{kRowMajor, Orientation::row_wise, {}, DType::e4m3, ScaleForm{}};
  const Tensor x = host_tensor(DType::f32, {1, 4});
  const double values[] = {INFINITY, NAN, 1, 2};
  for (int i = 0; i < 4; ++i) set_element(x, i, values[i]);
  const QuantizationError e = quantization_error(x, made(x, form, INFINITY));
  EXPECT_EQ(e.not_finite, 2);
  EXPECT_EQ(e.amax, 2);
}

TEST_F(QuantizationErrorTest, MergesSums) {
  QuantizationError a, b;
  a.merge(b);
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

TEST_F(QuantizationErrorTest, RefusesRotatedOperands) {
  const OperandForm form =
      quantized_forms(GemmForm::weight_gradient, {Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}).a;
  const Tensor x = test::random_tensor(DType::f32, {16, 16}, 1);
  EXPECT_THROW(quantization_error(x, made(x, form, 1)), ShapeError);
}

}  // namespace
}  // namespace viaduct
