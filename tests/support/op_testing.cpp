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

template <class T>
double widened(const std::byte* from) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return static_cast<float>(read<bfloat16>(from));
  } else {
    return static_cast<double>(read<T>(from));
  }
}
template <class T>
void narrowed(std::byte* to, double value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    write(to, bfloat16(static_cast<float>(value)));
  } else {
    write(to, static_cast<T>(value));
  }
}

/// Calls f(T{}) with the C++ type of any dtype.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bfloat16{});
    case DType::f16:
      return f(float16{});
    case DType::i64:
      return f(int64_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::i8:
      return f(int8_t{});
    default:
      return f(uint8_t{});
  }
}

/// Calls f(row address, number of elements, bytes between them) for every row.
template <class F>
void for_rows(const Tensor& tensor, F&& f) {
  if (tensor.elements() == 0) return;
  const int64_t width = tensor.rank() > 0 ? tensor.dim(-1) : 1;
  const int64_t step = tensor.rank() > 0 ? tensor.stride(-1) * dtype_bytes(tensor.dtype()) : 0;
  for (int64_t i = 0; i < tensor.elements(); i += width) f(address(tensor, i), width, step);
}

double smallest_step(DType dtype) {
  return dtype == DType::f16 ? 0x1p-24 : dtype == DType::f64 ? 0 : 0x1p-149;
}

}  // namespace

double element(const Tensor& tensor, int64_t index) {
  return with_type(tensor.dtype(),
                   [&](auto type) { return widened<decltype(type)>(address(tensor, index)); });
}

void set_element(const Tensor& tensor, int64_t index, double value) {
  with_type(tensor.dtype(),
            [&](auto type) { narrowed<decltype(type)>(address(tensor, index), value); });
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result;
  result.reserve(static_cast<size_t>(tensor.elements()));
  with_type(tensor.dtype(), [&](auto type) {
    for_rows(tensor, [&](const std::byte* at, int64_t n, int64_t step) {
      for (int64_t i = 0; i < n; ++i) result.push_back(widened<decltype(type)>(at + i * step));
    });
  });
  return result;
}

void set_values(const Tensor& tensor, const std::vector<double>& values) {
  ASSERT_EQ(static_cast<int64_t>(values.size()), tensor.elements());
  size_t next = 0;
  with_type(tensor.dtype(), [&](auto type) {
    for_rows(tensor, [&](std::byte* at, int64_t n, int64_t step) {
      for (int64_t i = 0; i < n; ++i) narrowed<decltype(type)>(at + i * step, values[next++]);
    });
  });
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
  std::vector<double> random(static_cast<size_t>(result.elements()));
  for (size_t i = 0; i < random.size(); ++i)
    random[i] = scale * (2.0 * uniform_open(philox4x32(seed, i, 0)[0]) - 1);
  set_values(result, random);
  return result;
}

Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double scale) {
  return random_strided(dtype, shape, 0, seed, scale);
}

Tensor integers(DType dtype, const std::vector<int64_t>& values) {
  const Tensor result = host_tensor(dtype, {static_cast<int64_t>(values.size())});
  set_values(result, {values.begin(), values.end()});
  return result;
}

Tensor converted(const Tensor& tensor, DType dtype) {
  if (!tensor.defined()) return {};
  const Tensor result = host_tensor(dtype, tensor.shape());
  set_values(result, values(tensor));
  return result;
}

Tensor to_f64(const Tensor& tensor) {
  return converted(tensor, DType::f64);
}

Tensor magnitudes(const Tensor& tensor) {
  std::vector<double> all = values(tensor);
  for (double& value : all) value = std::abs(value);
  const Tensor result = host_tensor(DType::f64, tensor.shape());
  set_values(result, all);
  return result;
}

void expect_close(const Tensor& actual, const Tensor& reference, double terms,
                  const Tensor& term_sums) {
  ASSERT_EQ(actual.shape(), reference.shape()) << describe(actual) << ", " << describe(reference);
  const DType sum = actual.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const double rounding = 2 * dtype_epsilon(actual.dtype());
  const double summing = 4 * dtype_epsilon(sum) * std::sqrt(std::max(1.0, terms));
  const std::vector<double> found = values(actual), expected = values(reference);
  const std::vector<double> sums = term_sums.defined() ? values(term_sums) : expected;
  ASSERT_EQ(sums.size(), found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const double x = found[i], r = expected[i];
    if (x == r || (std::isnan(x) && std::isnan(r))) continue;
    const double magnitude = std::abs(sums[i]);
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
  const int64_t width = actual.rank() > 0 ? actual.dim(-1) : 1;
  for (int64_t row = 0; row < actual.elements(); row += width) {
    const bool dense = actual.rank() == 0 || (actual.stride(-1) == 1 && expected.stride(-1) == 1);
    if (dense && std::memcmp(address(actual, row), address(expected, row),
                             bytes * static_cast<size_t>(width)) == 0)
      continue;
    for (int64_t i = row; i < row + width; ++i) {
      ASSERT_EQ(std::memcmp(address(actual, i), address(expected, i), bytes), 0)
          << "element " << i << " of " << describe(actual) << ": " << element(actual, i)
          << " instead of " << element(expected, i);
    }
  }
}

}  // namespace viaduct::test
