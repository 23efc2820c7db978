// Quantized operands in plain loops: scales by hand, bounds of rounding, and products compared with
// those of the dequantized matrices.

#include "ops/reference/scaled_operand.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"
#include "tensor/operand_scale.h"

namespace viaduct {
namespace {

using test::element;
using test::random_tensor;
using test::set_element;
using testing::HasSubstr;
using testing::ThrowsMessage;

OperandForm form(DType element, const ScaleForm& scales,
                 Orientation orientation = Orientation::row_wise,
                 std::string_view layout = kRowMajor) {
  return {layout, orientation, {}, element, scales};
}

const ScaleForm kPerTensor{}, kMx{DType::e8m0, {1, 32}}, kSquare{DType::f32, {128, 128}};

Operand quantized(const Tensor& matrix, const OperandForm& form) {
  const Operand out(form, matrix.dtype(), matrix.shape(),
                    host_tensor(*form.element, values_shape(form, matrix.shape())),
                    host_tensor(form.scales->dtype, scales_shape(form, matrix.shape())));
  reference::quantize({matrix, out});
  return out;
}

Tensor row(const std::vector<double>& values) {
  const Tensor tensor = host_tensor(DType::f32, {1, static_cast<int64_t>(values.size())});
  test::set_values(tensor, values);
  return tensor;
}

TEST(ScaledOperand, ScalesByHand) {
  const Tensor x = row({1, -896, 3.3, 0});
  const Operand tensor = quantized(x, form(DType::e4m3, kPerTensor));
  EXPECT_EQ(tensor.scales().data<float>()[0], 2);
  // 3.3 / 2 = 1.65 lies between 1.625 and 1.75.
  EXPECT_EQ(test::values(reference::dequantized(tensor)), (std::vector<double>{1, -896, 3.25, 0}));

  // 900 / 448 = 2.009: the smallest power of two not below it is 4.
  const Tensor y = row({1, -900, 3.3, 0});
  const Operand mx = quantized(y, form(DType::e4m3, kMx));
  EXPECT_EQ(mx.scales().raw() == nullptr ? 0 : *static_cast<uint8_t*>(mx.scales().raw()), 127 + 2);
  EXPECT_EQ(test::values(reference::dequantized(mx)), (std::vector<double>{1, -896, 3.25, 0}));
  const Operand square = quantized(y, form(DType::e5m2, kSquare));
  EXPECT_EQ(square.scales().data<float>()[0], 0x1p-5f) << "900 / 57344 = 0.0157";
  const Operand bytes = quantized(y, form(DType::i8, {DType::f32, {1, 4}}));
  EXPECT_EQ(bytes.scales().data<float>()[0], 8);
  EXPECT_EQ(bytes.values().data<int8_t>()[1], -112) << "900 / 8 = 112.5, to even";

  const Operand zeros = quantized(row({0, 0}), form(DType::e4m3, kMx));
  EXPECT_EQ(test::values(reference::dequantized(zeros)), (std::vector<double>{0, 0}));
  for (const double bad : {std::nan(""), double{INFINITY}}) {
    const Operand poisoned = quantized(row({1, bad}), form(DType::i8, {DType::f32, {1, 1}}));
    const auto back = test::values(reference::dequantized(poisoned));
    EXPECT_EQ(back[0], 1) << "another group";
    EXPECT_TRUE(std::isnan(back[1])) << "an update must propagate it";
  }
}

// |x − quantized| is at most half a step: 2^-4 (e4m3) or 2^-3 (e5m2) of x, or of the smallest
// normal number times the scale of the group.
TEST(ScaledOperand, RoundsByHalfAStepAtMost) {
  const Tensor x = random_tensor(DType::bf16, {150, 200}, 1);
  for (const Orientation orientation : {Orientation::row_wise, Orientation::column_wise}) {
    for (const ScaleForm& scales : {kPerTensor, kMx, kSquare}) {
      for (const auto& [type, relative, normal] :
           {std::tuple{DType::e4m3, 0x1p-4, 0x1p-6}, std::tuple{DType::e5m2, 0x1p-3, 0x1p-14}}) {
        const Operand q = quantized(x, form(type, scales, orientation));
        const Tensor back = reference::dequantized(q);
        double largest_scale = 0;
        for (int64_t i = 0; i < q.scales().elements(); ++i) {
          const double scale =
              scales.dtype == DType::e8m0
                  ? std::ldexp(1.0, static_cast<uint8_t*>(q.scales().raw())[i] - 127)
                  : q.scales().data<float>()[i];
          largest_scale = std::max(largest_scale, scale);
        }
        int64_t rounded = 0;
        for (int64_t i = 0; i < x.elements(); ++i) {
          const double from = element(x, i), to = element(back, i);
          // Per-tensor scales are not powers of two, so the division rounds too.
          ASSERT_LE(std::abs(from - to),
                    relative * std::max(std::abs(from), normal * largest_scale) * (1 + 1e-5));
          rounded += from != to;
        }
        EXPECT_GT(rounded, x.elements() / 2);
      }
    }
  }
}

TEST(ScaledOperand, ColumnWiseIsTheTransposedMatrixRowWise) {
  const Tensor x = random_tensor(DType::f32, {70, 40}, 1);
  const Tensor turned = host_tensor(DType::f32, {40, 70});
  for (int64_t r = 0; r < 70; ++r)
    for (int64_t c = 0; c < 40; ++c) set_element(turned, c * 70 + r, element(x, r * 40 + c));
  const Operand expected = quantized(turned, form(DType::e4m3, kMx));
  for (const std::string_view layout : {kRowMajor, kContractedLast}) {
    const Operand q = quantized(x, form(DType::e4m3, kMx, Orientation::column_wise, layout));
    test::expect_same_bits(q.scales().view({q.scales().elements()}),
                           expected.scales().view({expected.scales().elements()}));
    const Tensor back = reference::dequantized(q), other = reference::dequantized(expected);
    for (int64_t r = 0; r < 70; ++r)
      for (int64_t c = 0; c < 40; ++c)
        ASSERT_EQ(element(back, r * 40 + c), element(other, c * 70 + r));
  }
}

TEST(ScaledOperand, EachGroupHasItsScales) {
  const OperandForm groups = form(DType::e4m3, {DType::e8m0, {1, 2}});
  const Tensor a = row({256, 128, 0x1p-10, 0x1p-10}), b = row({256, 256, 256, 128});
  const Operand qa = quantized(a, groups), qb = quantized(b, groups);
  const Tensor c = host_tensor(DType::f32, {1, 1});
  reference::scaled_gemm({GemmForm::forward, qa, qb, c});
  EXPECT_EQ(element(c, 0), 256 * 256 + 128 * 256 + 0.25 + 0.125);
}

TEST(ScaledOperand, ProductsAreThoseOfTheDequantizedMatrices) {
  struct Case {
    GemmForm form;
    Shape a, b, c;
    Orientation of_a, of_b;
  };
  const int64_t m = 37, n = 140, k = 270;
  const auto rows = Orientation::row_wise, columns = Orientation::column_wise;
  for (const Case& of :
       {Case{GemmForm::forward, {m, k}, {n, k}, {m, n}, rows, rows},
        Case{GemmForm::data_gradient, {m, n}, {n, k}, {m, k}, rows, columns},
        Case{GemmForm::weight_gradient, {m, n}, {m, k}, {n, k}, columns, columns}}) {
    for (const auto& [a_scales, b_scales] : {std::pair{kPerTensor, kPerTensor}, std::pair{kMx, kMx},
                                             std::pair{ScaleForm{DType::f32, {1, 128}}, kSquare}}) {
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        GemmArgs args{
            of.form,
            quantized(random_tensor(DType::bf16, of.a, 1), form(DType::e5m2, a_scales, of.of_a)),
            quantized(random_tensor(DType::bf16, of.b, 2), form(DType::e4m3, b_scales, of.of_b)),
            random_tensor(DType::f32, of.c, 3),
            {},
            mode};
        GemmArgs exact{of.form,
                       test::to_f64(reference::dequantized(args.a)),
                       test::to_f64(reference::dequantized(args.b)),
                       test::to_f64(args.c),
                       {},
                       mode};
        GemmArgs sums{of.form,
                      test::magnitudes(exact.a.tensor()),
                      test::magnitudes(exact.b.tensor()),
                      test::magnitudes(exact.c),
                      {},
                      mode};
        if (of.form == GemmForm::forward && mode == WriteMode::assign) {
          args.bias = random_tensor(DType::f32, {of.c[1]}, 4);
          exact.bias = test::to_f64(args.bias), sums.bias = test::magnitudes(exact.bias);
        }
        reference::scaled_gemm(args);
        reference::gemm(exact);
        reference::gemm(sums);
        SCOPED_TRACE(static_cast<int>(of.form));
        test::expect_close(args.c, exact.c, static_cast<double>(k), sums.c);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(ScaledOperand, RefusesWhatIsNotQuantized) {
  const Tensor x = random_tensor(DType::f32, {4, 4}, 1);
  const Operand q = quantized(x, form(DType::e4m3, kMx));
  EXPECT_THAT(
      [&] {
        reference::scaled_gemm({GemmForm::forward, x, q, x});
      },
      ThrowsMessage<DeviceError>(HasSubstr("expected a quantized form")));
  EXPECT_THAT([] { largest_element(DType::f16); },
              ThrowsMessage<DeviceError>(HasSubstr("expected e4m3, e5m2, i8 or e2m1x2")));
}

}  // namespace
}  // namespace viaduct
