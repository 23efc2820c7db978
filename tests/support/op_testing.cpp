#include "support/op_testing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/philox.h"

namespace viaduct::test {
namespace {

std::byte* address(const Tensor& tensor, int64_t index) {
  int64_t offset = 0;
  for (int d = tensor.rank() - 1; d >= 0; --d) {
    offset += index % tensor.dim(d) * tensor.stride(d);
    index /= tensor.dim(d);
  }
  return static_cast<std::byte*>(tensor.raw()) + offset * dtype_bytes(tensor.dtype());
}

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

double smallest_step(DType dtype) {
  return dtype == DType::f16 ? 0x1p-24 : dtype == DType::f64 ? 0 : 0x1p-149;
}

}  // namespace

std::vector<CpuIsa> testable_isas() {
  std::vector<CpuIsa> isas;
  for (CpuIsa isa : {CpuIsa::avx2, CpuIsa::avx512}) {
    if (cpu_supports(isa)) isas.push_back(isa);
  }
  return isas;
}

OpMachine::OpMachine(CpuIsa isa, int threads, std::initializer_list<AddFamily> families)
    : device_(make_cpu_device(threads)) {
  table_.traits.name = "cpu:" + std::string(cpu_isa_name(isa));
  table_.traits.vector_floats = isa == CpuIsa::avx2 ? 8 : 16;
  for (AddFamily add : families) add(table_, isa);
}

double element(const Tensor& tensor, int64_t index) {
  const std::byte* at = address(tensor, index);
  switch (tensor.dtype()) {
    case DType::f64:
      return read<double>(at);
    case DType::f32:
      return read<float>(at);
    case DType::bf16:
      return static_cast<float>(read<bfloat16>(at));
    case DType::f16:
      return static_cast<double>(read<float16>(at));
    case DType::i64:
      return static_cast<double>(read<int64_t>(at));
    case DType::i32:
      return read<int32_t>(at);
    case DType::i16:
      return read<int16_t>(at);
    case DType::u16:
      return read<uint16_t>(at);
    case DType::i8:
      return read<int8_t>(at);
    default:
      return read<uint8_t>(at);
  }
}

void set_element(const Tensor& tensor, int64_t index, double value) {
  std::byte* at = address(tensor, index);
  switch (tensor.dtype()) {
    case DType::f64:
      return write(at, value);
    case DType::f32:
      return write(at, static_cast<float>(value));
    case DType::bf16:
      return write(at, bfloat16(static_cast<float>(value)));
    case DType::f16:
      return write(at, static_cast<float16>(value));
    case DType::i64:
      return write(at, static_cast<int64_t>(value));
    case DType::i32:
      return write(at, static_cast<int32_t>(value));
    case DType::i16:
      return write(at, static_cast<int16_t>(value));
    case DType::u16:
      return write(at, static_cast<uint16_t>(value));
    case DType::i8:
      return write(at, static_cast<int8_t>(value));
    default:
      return write(at, static_cast<uint8_t>(value));
  }
}

Tensor strided_zeros(DType dtype, const Shape& shape, int64_t gap) {
  if (gap == 0 || shape.rank() == 0) return host_tensor(dtype, shape);
  Shape wide = shape;
  wide[shape.rank() - 1] += gap;
  const Tensor whole = host_tensor(dtype, wide);
  if (is_floating(dtype)) {
    const int64_t width = wide[shape.rank() - 1];
    for (int64_t i = 0; i < whole.elements(); ++i) {
      if (i % width >= width - gap) set_element(whole, i, std::numeric_limits<double>::quiet_NaN());
    }
  }
  return whole.slice(-1, 0, shape.dim(-1));
}

Tensor random_strided(DType dtype, const Shape& shape, int64_t gap, uint64_t seed, double scale) {
  const Tensor result = strided_zeros(dtype, shape, gap);
  for (int64_t i = 0; i < result.elements(); ++i) {
    const auto bits = philox4x32(seed, static_cast<uint64_t>(i), 0);
    set_element(result, i, scale * (2.0 * uniform_open(bits[0]) - 1));
  }
  return result;
}

Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double scale) {
  return random_strided(dtype, shape, 0, seed, scale);
}

Tensor integers(DType dtype, const std::vector<int64_t>& values) {
  const Tensor result = host_tensor(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    set_element(result, static_cast<int64_t>(i), static_cast<double>(values[i]));
  return result;
}

Tensor converted(const Tensor& tensor, DType dtype) {
  if (!tensor.defined()) return {};
  const Tensor result = host_tensor(dtype, tensor.shape());
  for (int64_t i = 0; i < tensor.elements(); ++i) set_element(result, i, element(tensor, i));
  return result;
}

Tensor to_f64(const Tensor& tensor) {
  return converted(tensor, DType::f64);
}

Tensor magnitudes(const Tensor& tensor) {
  const Tensor result = to_f64(tensor);
  for (int64_t i = 0; i < result.elements(); ++i)
    set_element(result, i, std::abs(element(result, i)));
  return result;
}

void expect_close(const Tensor& actual, const Tensor& reference, double terms,
                  const Tensor& term_sums) {
  ASSERT_EQ(actual.shape(), reference.shape()) << describe(actual) << ", " << describe(reference);
  const DType sum = actual.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const double rounding = 2 * dtype_epsilon(actual.dtype());
  const double summing = 4 * dtype_epsilon(sum) * std::sqrt(std::max(1.0, terms));
  for (int64_t i = 0; i < actual.elements(); ++i) {
    const double x = element(actual, i), r = element(reference, i);
    if (x == r || (std::isnan(x) && std::isnan(r))) continue;
    const double magnitude = term_sums.defined() ? element(term_sums, i) : std::abs(r);
    const double allowed =
        rounding * std::abs(r) + summing * magnitude + smallest_step(actual.dtype()) / 2;
    ASSERT_LE(std::abs(x - r), allowed)
        << "element " << i << " of " << describe(actual) << ": " << x << " instead of " << r;
  }
}

void expect_same_bits(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const auto bytes = static_cast<size_t>(dtype_bytes(actual.dtype()));
  for (int64_t i = 0; i < actual.elements(); ++i) {
    ASSERT_EQ(std::memcmp(address(actual, i), address(expected, i), bytes), 0)
        << "element " << i << " of " << describe(actual) << ": " << element(actual, i)
        << " instead of " << element(expected, i);
  }
}

}  // namespace viaduct::test
