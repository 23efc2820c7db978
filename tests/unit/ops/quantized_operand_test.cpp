// Quantized operands of the cpu: made like the reference's, and multiplied like the BF16 matrices
// that they represent.

#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "ops/quantized_forms.h"
#include "ops/reference/reference.h"
#include "ops/reference/scaled_operand.h"
#include "support/op_testing.h"
#include "tensor/number_formats.h"

namespace viaduct {
namespace {

using test::element;
using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::set_element;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Quantization kSchemes[] = {
    {Scaling::tensor, DType::e4m3, DType::e5m2},
    {Scaling::blocks, DType::e4m3, DType::e5m2},
    {Scaling::mx, DType::e4m3, DType::e4m3},
};
constexpr GemmForm kForms[] = {GemmForm::forward, GemmForm::data_gradient,
                               GemmForm::weight_gradient};

/// The forms of both operands in all products of all schemes.
std::vector<OperandForm> all_forms() {
  std::vector<OperandForm> forms;
  for (const Quantization& scheme : kSchemes) {
    for (const GemmForm form : kForms) {
      const GemmForms both = quantized_forms(form, scheme);
      forms.push_back(both.a), forms.push_back(both.b);
    }
  }
  return forms;
}

Operand empty(const OperandForm& form, const Tensor& matrix) {
  const Tensor values = host_tensor(*form.element, values_shape(form, matrix.shape()));
  const Tensor scales = host_tensor(form.scales->dtype, scales_shape(form, matrix.shape()));
  return {form, matrix.dtype(), matrix.shape(), values, scales};
}

class QuantizedOperandTest : public testing::TestWithParam<CpuIsa> {
 protected:
  Tensor amax_of(const Tensor& matrix) {
    const Tensor amax = host_tensor(DType::f32, {1});
    largest_magnitude(context_, {matrix, amax});
    return amax;
  }
  Operand quantized(const Tensor& matrix, const OperandForm& form) {
    return operand_in(context_, matrix, form, MemoryTag::activations,
                      has_one_scale(form) ? amax_of(matrix) : Tensor());
  }
  void expect_as_reference(const Tensor& matrix, const OperandForm& form) {
    SCOPED_TRACE(describe(matrix) + " as " + describe(form));
    const Operand actual = quantized(matrix, form), expected = empty(form, matrix);
    reference::quantize({matrix, expected});
    expect_same_bits(actual.scales(), expected.scales());
    const auto* a = static_cast<const uint8_t*>(actual.values().raw());
    const auto* b = static_cast<const uint8_t*>(expected.values().raw());
    for (int64_t i = 0; i < matrix.elements(); ++i) {
      // The sign of NaN has no meaning.
      if ((a[i] & 0x7f) == 0x7f && (b[i] & 0x7f) == 0x7f) continue;
      ASSERT_EQ(int{a[i]}, int{b[i]}) << i << ": " << element(matrix, i);
    }
  }
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm, cpu::add_largest_magnitude}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, QuantizedOperandTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(QuantizedOperandTest, AreThoseOfTheReference) {
  for (const OperandForm& form : all_forms()) {
    for (const DType dtype : test::kKernelDTypes) {
      for (const Shape& shape : {Shape{1, 1}, Shape{130, 300}, Shape{67, 1100}})
        expect_as_reference(random_strided(dtype, shape, 3, 1), form);
      if (HasFailure()) return;
    }
  }
}

// Powers of two times elements are BF16 numbers, so nothing is rounded.
TEST_P(QuantizedOperandTest, ExpandToTheNumbersThatTheyStandFor) {
  for (const Orientation orientation : {Orientation::row_wise, Orientation::column_wise}) {
    const OperandForm form{.orientation = orientation,
                           .element = DType::e4m3,
                           .scales = ScaleForm{DType::e8m0, {1, 32}}};
    for (const Shape& shape : {Shape{0, 64}, Shape{1, 32}, Shape{67, 1100}}) {
      const Operand codes = quantized(random_strided(DType::f32, shape, 3, 1), form);
      const Tensor out = host_tensor(DType::bf16, shape);
      expand_operand(context_, {codes, out});
      const Tensor expected = reference::dequantized(codes);
      for (int64_t i = 0; i < out.elements(); ++i)
        ASSERT_EQ(element(out, i), element(expected, i)) << i;
    }
  }
  const Tensor matrix = random_tensor(DType::f32, {4, 64}, 1);
  const OperandForm whole{.element = DType::e4m3, .scales = ScaleForm{}};
  EXPECT_THROW(
      expand_operand(context_, {quantized(matrix, whole), host_tensor(DType::bf16, {4, 64})}),
      ShapeError)
      << "a scale of the whole matrix";
}

TEST_P(QuantizedOperandTest, ExtremeValuesAreThoseOfTheReference) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    // Groups of zeros, one with infinity and one with NaN, subnormal ones, and the largest numbers.
    const Tensor x = random_tensor(dtype, {260, 384}, 2);
    for (int64_t i = 0; i < x.elements(); ++i) {
      const int64_t row = i / 384, column = i % 384;
      if (row < 128 && column < 128) set_element(x, i, 0);
      if (row < 128 && column >= 256) set_element(x, i, element(x, i) * 0x1p-128);
      if (row >= 128 && column >= 256) set_element(x, i, element(x, i) * 3e38);
      if (row >= 256) set_element(x, i, element(x, i) * 0x1p-140);
    }
    set_element(x, 200 * 384 + 7, INFINITY);
    set_element(x, 140 * 384 + 200, NAN);
    for (const OperandForm& form : all_forms()) {
      expect_as_reference(x, form);
      if (HasFailure()) return;
    }
  }
}

// With a scale of 1: every BF16 and FP16 number gets the code of the exact host code.
TEST_P(QuantizedOperandTest, EveryNumberHasItsCode) {
  const Tensor amax = host_tensor(DType::f32, {1});
  for (const DType element : {DType::e4m3, DType::e5m2}) {
    amax.data<float>()[0] = element == DType::e4m3 ? 448 : 57344;
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Tensor x = host_tensor(dtype, {64, 1024});
      for (int i = 0; i < 65536; ++i) static_cast<uint16_t*>(x.raw())[i] = static_cast<uint16_t>(i);
      const OperandForm form{kRowMajor, Orientation::row_wise, {}, element, ScaleForm{}};
      const Operand codes = operand_in(context_, x, form, MemoryTag::activations, amax);
      EXPECT_EQ(codes.scales().data<float>()[0], 1);
      for (int i = 0; i < 65536; ++i) {
        const auto value = static_cast<float>(test::element(x, i));
        const int code = static_cast<uint8_t*>(codes.values().raw())[i];
        const int expected =
            element == DType::e4m3 ? float8_e4m3(value).bits : float8_e5m2(value).bits;
        if (std::isnan(value)) {
          ASSERT_EQ(code & 0x7f, 0x7f);
        } else {
          ASSERT_EQ(code, expected) << value;
        }
      }
    }
  }
}

// Each group also has 448 times a power of two, which makes that power its scale: every BF16 number
// that is not larger, normal code or not, for scales near the ends of the range and in the middle.
TEST_P(QuantizedOperandTest, EveryNumberHasItsCodeInAGroup) {
  for (const int power : {-110, -100, -3, 0, 100, 112}) {
    const double most = 448 * std::ldexp(1.0, power);
    const Tensor x = host_tensor(DType::bf16, {96, 1024});
    for (int i = 0, bits = 0; i < 96 * 1024; ++i) {
      if (i % 32 == 0) {
        set_element(x, i, i % 64 == 0 ? most : -most);
      } else if (bits < 65536) {
        static_cast<uint16_t*>(x.raw())[i] = static_cast<uint16_t>(bits++);
        if (!(std::abs(element(x, i)) <= most)) set_element(x, i, 0);
      }
    }
    // The same groups as columns.
    const Tensor turned = host_tensor(DType::bf16, {1024, 96});
    for (int64_t r = 0; r < 96; ++r) {
      for (int64_t c = 0; c < 1024; ++c)
        turned.data<bfloat16>()[c * 96 + r] = x.data<bfloat16>()[r * 1024 + c];
    }
    OperandForm form{.element = DType::e4m3, .scales = ScaleForm{DType::e8m0, {1, 32}}};
    expect_as_reference(x, form);
    form.orientation = Orientation::column_wise;
    expect_as_reference(turned, form);
    if (HasFailure()) return;
  }
}

// Each code with each scale, rounded to BF16 where the product is subnormal.
TEST_P(QuantizedOperandTest, EveryCodeExpandsWithEveryScale) {
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    for (const Orientation orientation : {Orientation::row_wise, Orientation::column_wise}) {
      // Row-wise a row of all codes has one scale; column-wise each element has its own.
      const bool row_wise = orientation == Orientation::row_wise;
      const OperandForm form{.orientation = orientation,
                             .element = dtype,
                             .scales = ScaleForm{DType::e8m0, {1, row_wise ? 256 : 1}}};
      const Tensor matrix = random_tensor(DType::bf16, {256, 256}, 1);
      const Operand operand = empty(form, matrix);
      for (int64_t i = 0; i < 256 * 256; ++i) {
        static_cast<uint8_t*>(operand.values().raw())[i] = static_cast<uint8_t>(i % 256);
        if (i < operand.scales().elements()) {
          operand.scales().data<float8_e8m0>()[i].bits =
              static_cast<uint8_t>(row_wise ? i : 7 * (i % 256) + i / 256);
        }
      }
      const Tensor out = host_tensor(DType::bf16, {256, 256});
      expand_operand(context_, {operand, out});
      const Tensor expected = test::converted(reference::dequantized(operand), DType::bf16);
      for (int64_t i = 0; i < 256 * 256; ++i) {
        const double a = element(out, i), b = element(expected, i);
        ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i << ": " << a << ", " << b;
      }
    }
  }
}

TEST_P(QuantizedOperandTest, LargestMagnitude) {
  for (const DType dtype : test::kKernelDTypes) {
    const Tensor x = random_strided(dtype, {37, 1500}, 5, 3);
    const auto amax = [&] { return amax_of(x).data<float>()[0]; };
    double expected = 0;
    for (int64_t i = 0; i < x.elements(); ++i)
      expected = std::max(expected, std::abs(element(x, i)));
    EXPECT_EQ(amax(), expected);
    set_element(x, 36 * 1500 + 1499, -3);
    EXPECT_EQ(amax(), 3);
    set_element(x, 5, NAN);
    EXPECT_EQ(amax(), INFINITY);
    set_element(x, 5, -INFINITY);
    EXPECT_EQ(amax(), INFINITY);
    EXPECT_EQ(amax_of(host_tensor(dtype, {0, 4})).data<float>()[0], 0);
  }
}

TEST_P(QuantizedOperandTest, ThreadsChangeNoBit) {
  OpMachine other{GetParam(), 3, {cpu::add_gemm, cpu::add_largest_magnitude}};
  OpContext with_three = other.context();
  const Tensor x = random_tensor(DType::bf16, {300, 700}, 4);
  for (const OperandForm& form : all_forms()) {
    const Tensor amax = has_one_scale(form) ? amax_of(x) : Tensor();
    const Operand a = operand_in(context_, x, form, MemoryTag::activations, amax);
    const Operand b = operand_in(with_three, x, form, MemoryTag::activations, amax);
    EXPECT_EQ(
        std::memcmp(a.values().raw(), b.values().raw(), static_cast<size_t>(a.values().bytes())),
        0);
    expect_same_bits(a.scales(), b.scales());
  }
}

struct Product {
  GemmForm form;
  Shape a, b, c;
};

std::vector<Product> products() {
  const int64_t m = 70, n = 160, k = 400;
  return {{GemmForm::forward, {m, k}, {n, k}, {m, n}},
          {GemmForm::forward, {3, k}, {n, k}, {3, n}},
          {GemmForm::data_gradient, {m, n}, {n, k}, {m, k}},
          {GemmForm::weight_gradient, {m, n}, {m, k}, {n, k}}};
}

/// The operand's elements with scales of groups, or without the matrix scale, in BF16.
Tensor widened(const Operand& operand) {
  const Tensor wide = reference::dequantized(operand);
  if (has_one_scale(operand.form())) {
    const Tensor one = host_tensor(DType::f32, {1, 1});
    one.data<float>()[0] = 1;
    const Operand codes(operand.form(), operand.dtype(), operand.shape(), operand.values(), one);
    return test::converted(reference::dequantized(codes), DType::bf16);
  }
  return test::converted(wide, DType::bf16);
}

TEST_P(QuantizedOperandTest, ProductsAreThoseOfTheWidenedMatrices) {
  for (const Quantization& scheme : kSchemes) {
    for (const Product& of : products()) {
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        for (const DType c : {DType::bf16, DType::f32}) {
          SCOPED_TRACE(static_cast<int>(scheme.scaling));
          const GemmForms forms = quantized_forms(of.form, scheme);
          GemmArgs args{of.form, quantized(random_strided(DType::bf16, of.a, 2, 1), forms.a),
                        quantized(random_strided(DType::bf16, of.b, 2, 2), forms.b),
                        random_tensor(c, of.c, 3)};
          args.mode = mode;
          args.quantization = scheme;
          if (of.form == GemmForm::forward && mode == WriteMode::assign)
            args.bias = random_tensor(DType::f32, {of.c[1]}, 4);
          GemmArgs plain = args;
          plain.quantization = {};
          plain.a = widened(args.a), plain.b = widened(args.b);
          const bool whole = scheme.scaling == Scaling::tensor;
          plain.c = random_tensor(c, of.c, 3);
          // The scale multiplies the FP32 sum, before bias, accumulation and rounding.
          if (whole) plain.c = host_tensor(DType::f32, of.c), plain.bias = {};
          if (whole) plain.mode = WriteMode::assign;
          gemm(context_, plain);
          if (whole) {
            const float factor =
                args.a.scales().data<float>()[0] * args.b.scales().data<float>()[0];
            const Tensor sums = plain.c;
            plain.c = random_tensor(c, of.c, 3);
            for (int64_t i = 0; i < sums.elements(); ++i) {
              float value = sums.data<float>()[i] * factor;
              if (args.bias) value += args.bias.data<float>()[i % of.c[1]];
              if (mode == WriteMode::accumulate)
                value = static_cast<float>(element(plain.c, i)) + value;
              set_element(plain.c, i, value);
            }
          }
          gemm(context_, args);
          expect_same_bits(args.c, plain.c);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// The definition compared with plain loops that scale each group's sum.
TEST_P(QuantizedOperandTest, ProductsAreCloseToTheReference) {
  for (const Quantization& scheme : kSchemes) {
    for (const Product& of : products()) {
      const GemmForms forms = quantized_forms(of.form, scheme);
      GemmArgs args{of.form, quantized(random_tensor(DType::f32, of.a, 1, 1e-3), forms.a),
                    quantized(random_tensor(DType::f32, of.b, 2, 40), forms.b),
                    host_tensor(DType::f32, of.c)};
      args.quantization = scheme;
      gemm(context_, args);
      GemmArgs exact = args;
      exact.a = test::to_f64(reference::dequantized(args.a));
      exact.b = test::to_f64(reference::dequantized(args.b));
      exact.c = host_tensor(DType::f64, of.c);
      reference::gemm(exact);
      GemmArgs sums = exact;
      sums.a = test::magnitudes(exact.a.tensor()), sums.b = test::magnitudes(exact.b.tensor());
      sums.c = host_tensor(DType::f64, of.c);
      reference::gemm(sums);
      test::expect_close(args.c, exact.c, 400, sums.c);
    }
  }
}

TEST_P(QuantizedOperandTest, EpiloguesComeAfterTheScale) {
  OpMachine with{
      GetParam(),
      2,
      {cpu::add_gemm, cpu::add_largest_magnitude, cpu::add_activation, cpu::add_elementwise}};
  OpContext context = with.context();
  const int64_t m = 40, n = 256, k = 128;
  for (const Quantization& scheme : kSchemes) {
    const GemmForms forms = quantized_forms(GemmForm::forward, scheme);
    GemmArgs args{GemmForm::forward, quantized(random_tensor(DType::bf16, {m, k}, 1), forms.a),
                  quantized(random_tensor(DType::bf16, {n, k}, 2), forms.b),
                  host_tensor(DType::bf16, {m, n})};
    args.quantization = scheme;
    gemm(context, args);
    GemmArgs gated = args, added = args;
    gated.c = host_tensor(DType::bf16, {m, n}), added.c = host_tensor(DType::bf16, {m, n});
    const Tensor activated = host_tensor(DType::bf16, {m, n / 2});
    gated.epilogue = {{}, host_tensor(DType::bf16, {m, n / 2}), {}, ActivationKind::silu, true};
    gemm(context, gated);
    expect_same_bits(gated.c, args.c);
    activation_forward(context, {ActivationKind::silu, true, args.c, activated});
    expect_same_bits(gated.epilogue.activated, activated);
    const Tensor residual = random_tensor(DType::bf16, {m, n}, 5);
    added.epilogue.residual = residual;
    gemm(context, added);
    add(context, {residual, args.c, args.c});
    expect_same_bits(added.c, args.c);
  }
}

TEST_P(QuantizedOperandTest, RefusesOtherForms) {
  const Tensor x = random_tensor(DType::bf16, {64, 64}, 1), c = host_tensor(DType::bf16, {64, 64});
  const Quantization mx = kSchemes[2];
  const GemmForms forms = quantized_forms(GemmForm::forward, mx);
  GemmArgs args{GemmForm::forward, quantized(x, forms.a), x, c};
  args.quantization = mx;
  EXPECT_THAT([&] { gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("reads b in the form e4m3 row-major row-wise")));
  // Scales along the other dim.
  args.b = quantized(x, quantized_forms(GemmForm::data_gradient, mx).b);
  EXPECT_THROW(gemm(context_, args), ShapeError);
  args.b = quantized(x, forms.b);
  args.quantization = {};
  EXPECT_THROW(gemm(context_, args), ShapeError) << "not asked for";

  const OperandForm bytes{
      kRowMajor, Orientation::row_wise, {}, DType::i8, ScaleForm{DType::e8m0, {1, 32}}};
  EXPECT_THAT([&] { quantized(x, bytes); },
              ThrowsMessage<DeviceError>(HasSubstr("row-major e4m3, e5m2 and e2m1x2")));
  const OperandForm whole{kRowMajor, Orientation::row_wise, {}, DType::e4m3, ScaleForm{}};
  EXPECT_THAT([&] { operand_in(context_, x, whole, MemoryTag::activations); },
              ThrowsMessage<ShapeError>(HasSubstr("expected amax f32 [1]")));
}

}  // namespace
}  // namespace viaduct
