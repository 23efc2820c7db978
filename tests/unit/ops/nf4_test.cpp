// NF4: bitsandbytes' tensors to the bit, and each instruction set against the reference.

#include "ops/nf4.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "checkpoint/safetensors_reader.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"
#include "support/paths.h"
#include "tensor/nf4.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::OpMachine;
using test::random_tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

int64_t blocks_of(int64_t elements) {
  return (elements + kNf4Block - 1) / kNf4Block;
}

/// A matrix in NF4.
struct Quantized {
  explicit Quantized(int64_t elements)
      : codes(host_tensor(DType::u8, {(elements + 1) / 2})),
        absmax(host_tensor(DType::f32, {blocks_of(elements)})),
        absmax_codes(host_tensor(DType::u8, {blocks_of(elements)})),
        scales(host_tensor(DType::f32, {(blocks_of(elements) + kNf4Group - 1) / kNf4Group})),
        offset(host_tensor(DType::f32, {1})) {}
  Tensor codes, absmax, absmax_codes, scales, offset;
};

Tensor flat(const Tensor& tensor) {
  return tensor.view({tensor.elements()});
}

class Nf4Test : public testing::TestWithParam<CpuIsa> {
 protected:
  Quantized quantized(const Tensor& values) {
    Quantized made(values.elements());
    quantize_nf4(context_, {flat(values), made.codes, made.absmax});
    quantize_absmax(context_, {made.absmax, made.offset, made.absmax_codes, made.scales});
    return made;
  }
  Tensor expanded(const Quantized& of, const Shape& shape, DType dtype) {
    const Tensor out = host_tensor(dtype, shape);
    dequantize_nf4(context_, {of.codes, of.absmax_codes, of.scales, of.offset, flat(out)});
    return out;
  }

  OpMachine machine_{GetParam(), 3, {cpu::add_nf4}};
  OpContext context_ = machine_.context();
};

TEST_P(Nf4Test, EqualsBitsandbytes) {
  const SafetensorsFile file(test::test_data("golden") / "nf4.safetensors");
  for (const std::string name : {"a", "b"}) {
    SCOPED_TRACE(name);
    const auto golden = [&](const char* what) { return file.tensor(name + "." + what); };
    const Tensor source = golden("source");
    Quantized made = quantized(source);
    expect_same_bits(made.codes, golden("codes"));
    expect_same_bits(made.absmax, golden("absmax"));
    // The order of the mean's sum is free: to one unit in its last place.
    const float offset = *golden("offset").data<float>(), found = *made.offset.data<float>();
    EXPECT_LE(std::abs(found - offset), std::nextafter(offset, 2 * offset) - offset);
    *made.offset.data<float>() = offset;
    quantize_absmax(context_, {made.absmax, made.offset, made.absmax_codes, made.scales, true});
    expect_same_bits(made.absmax_codes, golden("absmax_codes"));
    expect_same_bits(made.scales, golden("absmax2"));
    const Tensor restored = golden("absmax_restored");
    for (int64_t i = 0; i < restored.elements(); ++i) {
      const auto code = static_cast<const uint8_t*>(made.absmax_codes.raw())[i];
      EXPECT_EQ(nf4_absmax(code, made.scales.data<float>()[i / kNf4Group], offset),
                restored.data<float>()[i]);
    }
    expect_same_bits(expanded(made, source.shape(), DType::f32), golden("dequantized"));
  }
  for (size_t i = 0; i < kNf4ScaleMap.size(); ++i)
    EXPECT_EQ(kNf4ScaleMap[i], file.tensor("dynamic_map").data<float>()[i]);
}

TEST_P(Nf4Test, EqualsTheReference) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (const int64_t elements : {1, 63, 64, 129, 64 * 300 + 5}) {
      const Tensor values = random_tensor(dtype, {elements}, 7);
      const Quantized made = quantized(values), expected(elements);
      reference::quantize_nf4({values, expected.codes, expected.absmax});
      expect_same_bits(made.codes, expected.codes);
      expect_same_bits(made.absmax, expected.absmax);
      const Tensor out = host_tensor(dtype, {elements});
      reference::dequantize_nf4({made.codes, made.absmax_codes, made.scales, made.offset, out});
      expect_same_bits(expanded(made, {elements}, dtype), out);
    }
  }
}

TEST_P(Nf4Test, TiesZerosAndNaN) {
  const Tensor values = host_tensor(DType::f32, {3 * kNf4Block});
  float* v = values.data<float>();
  v[0] = 1;  // absmax; then a value on each midpoint
  for (size_t i = 0; i < kNf4Midpoints.size(); ++i) v[i + 1] = kNf4Midpoints[i];
  v[2 * kNf4Block + 3] = std::numeric_limits<float>::quiet_NaN();
  const Quantized made = quantized(values);
  const auto* codes = static_cast<const uint8_t*>(made.codes.raw());
  const auto code = [&](int64_t i) { return i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15; };
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(code(i + 1), i) << "the lower one of two";
  for (int64_t i = kNf4Block; i < 2 * kNf4Block; ++i) EXPECT_EQ(code(i), 7);
  EXPECT_EQ(made.absmax.data<float>()[1], 0);
  EXPECT_TRUE(std::isnan(made.absmax.data<float>()[2]));
  // The mean of all absmax is NaN too.
  const Tensor all = expanded(made, values.shape(), DType::f32);
  EXPECT_TRUE(std::isnan(all.data<float>()[2 * kNf4Block]));

  const Quantized zeros = quantized(host_tensor(DType::f32, {300 * kNf4Block}));
  const Tensor out = expanded(zeros, {300 * kNf4Block}, DType::f32);
  for (int64_t i = 0; i < out.elements(); ++i) ASSERT_EQ(out.data<float>()[i], 0);
}

TEST_P(Nf4Test, PartsOfAMatrixFindTheirScales) {
  const int64_t rows = 96, columns = 512, run = 2;  // 8 blocks in a row
  const Tensor values = random_tensor(DType::f32, {rows, columns}, 3);
  const Quantized made = quantized(values);
  const Tensor whole = expanded(made, values.shape(), DType::f32);
  const int64_t part_columns = run * kNf4Block, stride = columns / kNf4Block, first = 3;
  const Tensor codes = host_tensor(DType::u8, {rows * part_columns / 2});
  const Tensor absmax_codes = host_tensor(DType::u8, {rows * run});
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t block = r * stride + first;
    std::copy_n(static_cast<const uint8_t*>(made.codes.raw()) + block * kNf4Block / 2,
                part_columns / 2, static_cast<uint8_t*>(codes.raw()) + r * part_columns / 2);
    std::copy_n(static_cast<const uint8_t*>(made.absmax_codes.raw()) + block, run,
                static_cast<uint8_t*>(absmax_codes.raw()) + r * run);
  }
  const Tensor out = host_tensor(DType::f32, {rows, part_columns});
  dequantize_nf4(context_,
                 {codes, absmax_codes, made.scales, made.offset, flat(out), {first, run, stride}});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < part_columns; ++c)
      ASSERT_EQ(out.data<float>()[r * part_columns + c],
                whole.data<float>()[r * columns + first * kNf4Block + c]);
}

TEST_P(Nf4Test, RefusesWhatDoesNotFit) {
  const Quantized made(128);
  const Tensor values = host_tensor(DType::f32, {128});
  EXPECT_THAT(
      [&] {
        quantize_nf4(context_, {values, made.codes, made.offset});
      },
      ThrowsMessage<ShapeError>(HasSubstr("absmax")));
  EXPECT_THAT(
      [&] {
        dequantize_nf4(context_, {made.codes,
                                  made.absmax_codes,
                                  made.scales,
                                  made.offset,
                                  values,
                                  {.first = 300, .run = 2, .stride = 2}});
      },
      ThrowsMessage<ShapeError>(HasSubstr("are not those of a matrix with 1 scales")));
}

INSTANTIATE_TEST_SUITE_P(Isas, Nf4Test, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
