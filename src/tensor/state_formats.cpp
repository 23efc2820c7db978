#include "tensor/state_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "tensor/number_formats.h"

namespace viaduct {
namespace {

/// `value` with this many significant bits.
float rounded_to_bits(float value, int bits) {
  const int dropped = 24 - bits;
  uint32_t u = std::bit_cast<uint32_t>(value);
  u = (u + (1u << (dropped - 1))) & ~((1u << dropped) - 1u);
  return std::bit_cast<float>(u);
}

template <class T>
void encode_groups(const float* from, int64_t elements, T* to, float* scales) {
  for (int64_t group = 0; group < state_groups(elements); ++group) {
    const int64_t begin = group * kStateGroup, end = std::min(elements, begin + kStateGroup);
    uint32_t largest = 0;  // magnitudes have the order of their bits, NaNs last
    for (int64_t i = begin; i < end; ++i)
      largest = std::max(largest, std::bit_cast<uint32_t>(from[i]) & 0x7fffffffu);
    const float scale = state_scale(std::bit_cast<float>(largest), dtype_of<T>);
    const float inverse = scale == 0 ? 0 : 1 / scale;
    scales[group] = scale;
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(from[i] * inverse);
  }
}

template <class T>
void decode_groups(const T* from, const float* scales, int64_t elements, float* to) {
  for (int64_t i = 0; i < elements; ++i)
    to[i] = static_cast<float>(from[i]) * scales[i / kStateGroup];
}

[[noreturn]] void no_such_format(const StateValues& state) {
  fail<ShapeError>("optimizer state: {} is not in a coded format", describe(state.values));
}

}  // namespace

bool has_state_scales(DType dtype) {
  return dtype == DType::f16 || dtype == DType::e4m3;
}

float state_scale(float largest, DType dtype) {
  if (largest == 0 || !std::isfinite(largest)) return largest;
  // Codes have 4 or 11 significant bits, the largest ones (7 · 2^6 and 2047 · 2^4) 3 or 11: with
  // the bits that remain for the scale, products fit into the 24 bits of FP32.
  const float scale = dtype == DType::e4m3 ? rounded_to_bits(largest / 448.0f, 20)
                                           : rounded_to_bits(largest / 32752.0f, 13);
  // Inverses of scales and the smallest products are FP32 numbers; values that are then below half
  // of the smallest code are zero.
  constexpr float kSmallest = 0x1p-100f;
  const float half_code = dtype == DType::e4m3 ? 0x1p-10f : 0x1p-25f;
  return largest <= kSmallest * half_code ? 0 : std::max(scale, kSmallest);
}

SplitMaster split_master(float master) {
  const auto bits = std::bit_cast<uint32_t>(master);
  auto high = static_cast<uint16_t>(bits >> 16);
  const auto low = static_cast<int16_t>(bits & 0xffffu);
  if (low < 0) ++high;
  return {high, low};
}

float join_master(SplitMaster split) {
  uint16_t high = split.weight;
  if (split.remainder < 0) --high;
  return std::bit_cast<float>(uint32_t{high} << 16 | static_cast<uint16_t>(split.remainder));
}

StateValues StateValues::slice(int64_t begin, int64_t length) const {
  StateValues part(values.slice(0, begin, length));
  if (weights) part.weights = weights.slice(0, begin, length);
  if (!scales) return part;
  VIADUCT_CHECK(ShapeError, begin % kStateGroup == 0,
                "optimizer state: element {} does not begin a group of {}", begin, kStateGroup);
  part.scales = scales.slice(0, begin / kStateGroup, state_groups(length));
  return part;
}

Tensor decoded_state(const StateValues& host) {
  const int64_t elements = host.values.elements();
  Tensor values = host_tensor(DType::f32, {elements});
  auto* to = values.data<float>();
  switch (host.values.dtype()) {
    case DType::i16:
      for (int64_t i = 0; i < elements; ++i)
        to[i] =
            join_master({host.weights.data<bfloat16>()[i].bits, host.values.data<int16_t>()[i]});
      break;
    case DType::f16:
      decode_groups(host.values.data<float16>(), host.scales.data<float>(), elements, to);
      break;
    case DType::e4m3:
      decode_groups(host.values.data<float8_e4m3>(), host.scales.data<float>(), elements, to);
      break;
    default:
      no_such_format(host);
  }
  return values;
}

void encode_state(const Tensor& values, const StateValues& host) {
  const int64_t elements = host.values.elements();
  VIADUCT_CHECK(ShapeError, values.elements() == elements,
                "optimizer state: {} values for a run of {}", values.elements(), elements);
  const auto* from = values.data<float>();
  switch (host.values.dtype()) {
    case DType::i16:
      for (int64_t i = 0; i < elements; ++i) {
        const SplitMaster split = split_master(from[i]);
        host.weights.data<bfloat16>()[i].bits = split.weight;
        host.values.data<int16_t>()[i] = split.remainder;
      }
      break;
    case DType::f16:
      encode_groups(from, elements, host.values.data<float16>(), host.scales.data<float>());
      break;
    case DType::e4m3:
      encode_groups(from, elements, host.values.data<float8_e4m3>(), host.scales.data<float>());
      break;
    default:
      no_such_format(host);
  }
}

}  // namespace viaduct
