#include "ops/reference/scaled_operand.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tensor/number_formats.h"
#include "tensor/operand_scale.h"

namespace viaduct::reference {
namespace {

float stored(const Tensor& tensor, int64_t at) {
  switch (tensor.dtype()) {
    case DType::e4m3:
      return static_cast<float>(tensor.data<float8_e4m3>()[at]);
    case DType::e5m2:
      return static_cast<float>(tensor.data<float8_e5m2>()[at]);
    case DType::e8m0:
      return static_cast<float>(tensor.data<float8_e8m0>()[at]);
    case DType::i8:
      return static_cast<float>(tensor.data<int8_t>()[at]);
    default:
      break;
  }
  float value = 0;
  VIADUCT_CHECK(
      DeviceError,
      dispatch_floating(tensor.dtype(),
                        [&]<class T>(T) { value = static_cast<float>(tensor.data<T>()[at]); }),
      "scaled operand: {} is neither an element nor a scale", describe(tensor));
  return value;
}

void store(const Tensor& tensor, int64_t at, float value) {
  switch (tensor.dtype()) {
    case DType::e4m3:
      tensor.data<float8_e4m3>()[at] = float8_e4m3(value);
      return;
    case DType::e5m2:
      tensor.data<float8_e5m2>()[at] = float8_e5m2(value);
      return;
    case DType::i8:
      // i8 has no NaN: the scale's NaN marks it.
      tensor.data<int8_t>()[at] = static_cast<int8_t>(
          std::isfinite(value) ? std::nearbyint(std::clamp(value, -127.0f, 127.0f)) : 0);
      return;
    default:
      break;
  }
  dispatch_floating(tensor.dtype(),
                    [&]<class T>(T) { tensor.data<T>()[at] = static_cast<T>(value); });
}

/// Elements and scales by (kept, contracted).
struct View {
  explicit View(const Operand& operand)
      : values(operand.values()),
        scales(operand.scales()),
        group(operand.form().scales ? operand.form().scales->group : kWholeMatrix) {
    VIADUCT_CHECK(DeviceError,
                  operand.form().scales && operand.form().element && operand.form().shows_shape(),
                  "scaled operand: expected a quantized form that shows its shape, got {}",
                  describe(operand));
    const bool rows = operand.form().orientation == Orientation::row_wise;
    kept = operand.dim(rows ? 0 : 1), contracted = operand.dim(rows ? 1 : 0);
    pairs = operand.form().element == DType::e2m1x2;
    if (operand.matrix_scale()) matrix_scale = operand.matrix_scale().data<float>()[0];
    kept_stride = values.stride(0) * (pairs ? 2 : 1), contracted_stride = 1;
    if (!rows && operand.form().layout == kRowMajor) std::swap(kept_stride, contracted_stride);
    if (group.kept == 0) group = {std::max<int64_t>(1, kept), std::max<int64_t>(1, contracted)};
  }
  int64_t place(int64_t i, int64_t k) const { return i * kept_stride + k * contracted_stride; }
  float value(int64_t i, int64_t k) const {
    if (!pairs) return stored(values, place(i, k));
    const int byte = static_cast<const uint8_t*>(values.raw())[place(i, k) / 2];
    float4_e2m1 element;
    element.bits = static_cast<uint8_t>(place(i, k) % 2 == 0 ? byte & 15 : byte >> 4);
    return static_cast<float>(element);
  }
  int64_t scale_place(int64_t i, int64_t k) const {
    return i / group.kept * scales.stride(0) + k / group.contracted;
  }
  float scale(int64_t i, int64_t k) const {
    return stored(scales, scale_place(i, k)) * matrix_scale;
  }

  Tensor values, scales;
  float matrix_scale = 1;
  bool pairs = false;  // two elements in a byte
  OperandExtent group;
  int64_t kept = 0, contracted = 0, kept_stride = 0, contracted_stride = 0;
};

/// Largest magnitude of the elements [i0, i1) × [k0, k1); an element that is not finite, if there
/// is one.
template <class F>
float largest_magnitude(int64_t i0, int64_t i1, int64_t k0, int64_t k1, F&& element) {
  float amax = 0;
  for (int64_t i = i0; i < i1; ++i) {
    for (int64_t k = k0; k < k1; ++k) {
      const float magnitude = std::fabs(element(i, k));
      if (!std::isfinite(magnitude)) return magnitude;
      amax = std::max(amax, magnitude);
    }
  }
  return amax;
}

void store_scale(const Tensor& scales, int64_t at, float scale) {
  if (scales.dtype() == DType::e8m0) {
    scales.data<float8_e8m0>()[at] = float8_e8m0::not_below(scale);
  } else {
    scales.data<float>()[at] = scale;
  }
}

}  // namespace

void quantize(const ConvertOperandArgs& args) {
  const View out(args.out);
  const bool rows = args.out.form().orientation == Orientation::row_wise;
  const auto matrix = [&](int64_t i, int64_t k) {
    return stored(args.matrix, (rows ? i : k) * args.matrix.stride(0) + (rows ? k : i));
  };
  for (int64_t i0 = 0; i0 < out.kept; i0 += out.group.kept) {
    for (int64_t k0 = 0; k0 < out.contracted; k0 += out.group.contracted) {
      const int64_t i1 = std::min(i0 + out.group.kept, out.kept);
      const int64_t k1 = std::min(k0 + out.group.contracted, out.contracted);
      const float amax =
          args.amax ? args.amax.data<float>()[0] : largest_magnitude(i0, i1, k0, k1, matrix);
      const float scale = operand_scale(amax, *args.out.form().element, *args.out.form().scales);
      store_scale(out.scales, out.scale_place(i0, k0), scale);
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t k = k0; k < k1; ++k) store(out.values, out.place(i, k), matrix(i, k) / scale);
    }
  }
}

namespace {

/// f32 [R, C] of f(view, i, k).
template <class F>
Tensor of_elements(const Operand& operand, F&& f) {
  const View from(operand);
  const bool rows = operand.form().orientation == Orientation::row_wise;
  const Tensor out = host_tensor(DType::f32, operand.shape());
  for (int64_t i = 0; i < from.kept; ++i) {
    for (int64_t k = 0; k < from.contracted; ++k)
      out.data<float>()[rows ? i * from.contracted + k : k * from.kept + i] = f(from, i, k);
  }
  return out;
}

}  // namespace

Tensor dequantized(const Operand& operand) {
  return of_elements(operand, [](const View& from, int64_t i, int64_t k) {
    return from.value(i, k) * from.scale(i, k);
  });
}

Tensor element_scales(const Operand& operand) {
  return of_elements(operand,
                     [](const View& from, int64_t i, int64_t k) { return from.scale(i, k); });
}

void scaled_gemm(const GemmArgs& args) {
  VIADUCT_CHECK(ShapeError, !args.epilogue.any(), "scaled gemm: it has no epilogues");
  const View a(args.a), b(args.b);
  for (int64_t i = 0; i < a.kept; ++i) {
    for (int64_t j = 0; j < b.kept; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < a.contracted;) {
        const auto border = [&](const View& of) {
          return (k / of.group.contracted + 1) * of.group.contracted;
        };
        const int64_t end = std::min({border(a), border(b), a.contracted});
        const float scale = a.scale(i, k) * b.scale(j, k);
        float group_sum = 0;
        for (; k < end; ++k) group_sum += a.value(i, k) * b.value(j, k);
        sum += group_sum * scale;
      }
      if (args.bias) sum += stored(args.bias, j);
      const int64_t at = i * args.c.stride(0) + j;
      if (args.mode == WriteMode::accumulate) sum += stored(args.c, at);
      store(args.c, at, sum);
    }
  }
}

}  // namespace viaduct::reference
