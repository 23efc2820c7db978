#pragma once
// Stored formats of optimizer state on the device, bit for bit those of tensor/state_formats.h. A
// thread has 8 elements of a run, beginning at a multiple of 8; 8 neighbouring threads have a group
// that shares a scale.

#include "ops/cuda/kernels/float8.cuh"
#include "ops/cuda/kernels/optimizer_state.h"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {

inline constexpr int kStateRun = 8, kStateGroup = 64;

/// A run of state in memory; `weights` beside remainders.
struct StatePlace {
  void* values;
  float* scales;
  void* weights;
};

template <int n>
__device__ void load_state(StateFormat format, const StatePlace& state, int64_t at,
                           float (&to)[n]) {
  if (format == StateFormat::f32) {
    load_run(static_cast<const float*>(state.values) + at, to);
  } else if (format == StateFormat::bf16) {
    load_run(static_cast<const Bf16*>(state.values) + at, to);
  } else if (format == StateFormat::f16) {
    load_run(static_cast<const F16*>(state.values) + at, to);
    const float scale = state.scales[at / kStateGroup];
#pragma unroll
    for (int j = 0; j < n; ++j) to[j] *= scale;
  } else if (format == StateFormat::e4m3) {
    const auto codes =
        *reinterpret_cast<const Run<uint8_t, n>*>(static_cast<const uint8_t*>(state.values) + at);
    const float scale = state.scales[at / kStateGroup];
#pragma unroll
    for (int j = 0; j < n; ++j) to[j] = decode_e4m3(codes.values[j]) * scale;
  } else {
    const auto low =
        *reinterpret_cast<const Run<int16_t, n>*>(static_cast<const int16_t*>(state.values) + at);
    const auto high = *reinterpret_cast<const Run<uint16_t, n>*>(
        static_cast<const uint16_t*>(state.weights) + at);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const uint32_t rounded_up = low.values[j] < 0 ? 0x10000u : 0u;
      to[j] = __uint_as_float(((uint32_t{high.values[j]} << 16) - rounded_up) |
                              static_cast<uint16_t>(low.values[j]));
    }
  }
}

/// `value` with this many significant bits.
__device__ inline float rounded_to_bits(float value, int bits) {
  const int dropped = 24 - bits;
  const uint32_t u = __float_as_uint(value);
  return __uint_as_float((u + (1u << (dropped - 1))) & ~((1u << dropped) - 1u));
}

__device__ inline bool is_scaled(StateFormat format) {
  return format == StateFormat::f16 || format == StateFormat::e4m3;
}

/// The scale of a group whose largest magnitude is `largest` (`state_scale`).
__device__ inline float scale_of_group(float largest, StateFormat format) {
  if (largest == 0 || !(largest < __uint_as_float(0x7f800000u))) return largest;
  const bool e4m3 = format == StateFormat::e4m3;
  const float scale =
      e4m3 ? rounded_to_bits(largest / 448.0f, 20) : rounded_to_bits(largest / 32752.0f, 13);
  const float half_code = e4m3 ? 0x1p-10f : 0x1p-25f;
  if (largest <= 0x1p-100f * half_code) return 0;
  return scale < 0x1p-100f ? 0x1p-100f : scale;
}

/// The scale of this thread's group, 1 without one; `count` of `values` are there. All lanes of a
/// warp call it together. The group's first thread stores it.
__device__ inline float choose_scale(StateFormat format, const StatePlace& state, int64_t at,
                                     int count, const float (&values)[kStateRun]) {
  if (!is_scaled(format)) return 1;  // all lanes
  uint32_t most = 0;                 // magnitudes order as their bits do, those of NaNs last
#pragma unroll
  for (int j = 0; j < kStateRun; ++j)
    if (j < count) most = LargestOf{}(most, __float_as_uint(values[j]) & 0x7fffffffu);
  for (int bits = kStateGroup / kStateRun / 2; bits > 0; bits /= 2)
    most = LargestOf{}(most, __shfl_xor_sync(kAllLanes, most, bits));
  const float scale = scale_of_group(__uint_as_float(most), format);
  if (count > 0 && at % kStateGroup == 0) state.scales[at / kStateGroup] = scale;
  return scale;
}

/// Stores values in units of `scale`. With `lifts_zeros` a positive value never becomes zero.
template <int n>
__device__ void store_state(StateFormat format, const StatePlace& state, int64_t at, float scale,
                            bool lifts_zeros, const float (&from)[n]) {
  if (format == StateFormat::f32) {
    store_run(static_cast<float*>(state.values) + at, from);
  } else if (format == StateFormat::bf16) {
    store_run(static_cast<Bf16*>(state.values) + at, from);
  } else if (format == StateFormat::remainder) {
    Run<int16_t, n> low;
    Run<uint16_t, n> high;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const uint32_t bits = __float_as_uint(from[j]);
      low.values[j] = static_cast<int16_t>(bits & 0xffffu);
      high.values[j] = static_cast<uint16_t>((bits >> 16) + (bits >> 15 & 1u));
    }
    *reinterpret_cast<Run<int16_t, n>*>(static_cast<int16_t*>(state.values) + at) = low;
    *reinterpret_cast<Run<uint16_t, n>*>(static_cast<uint16_t*>(state.weights) + at) = high;
  } else {
    const float inverse = scale == 0 ? 0 : 1 / scale;
    const auto lifted = [&](auto code, int j) {
      return lifts_zeros && from[j] > 0 && code == 0 ? decltype(code){1} : code;
    };
    if (format == StateFormat::f16) {
      Run<uint16_t, n> codes;
#pragma unroll
      for (int j = 0; j < n; ++j)
        codes.values[j] = lifted(narrowed<F16>(from[j] * inverse).bits, j);
      *reinterpret_cast<Run<uint16_t, n>*>(static_cast<uint16_t*>(state.values) + at) = codes;
    } else {
      Run<uint8_t, n> codes;
#pragma unroll
      for (int j = 0; j < n; ++j)
        codes.values[j] = lifted(encode_float8(from[j] * inverse, false), j);
      *reinterpret_cast<Run<uint8_t, n>*>(static_cast<uint8_t*>(state.values) + at) = codes;
    }
  }
}

/// Whether 8 elements at any multiple of 8 may be read at once.
inline bool is_wide(const StatePlace& state) {
  return is_wide(state.values) && is_wide(state.weights);
}

/// Calls f(i, Count<n>) for this thread's elements [i, i + n) of its run: all 8 at once with kWide,
/// else one by one.
template <bool kWide, class F>
__device__ void for_state(int count, F&& f) {
  if (kWide && count == kStateRun) {
    f(0, Count<kStateRun>{});
  } else {
    for (int j = 0; j < count; ++j) f(j, Count<1>{});
  }
}

/// The thread's elements from `at` on, as arrays of 8.
template <bool kWide>
__device__ void load_all(StateFormat format, const StatePlace& state, int64_t at, int count,
                         float (&to)[kStateRun]) {
  for_state<kWide>(count, [&](int i, auto elements) {
    constexpr int n = decltype(elements)::value;
    float part[n];
    load_state(format, state, at + i, part);
#pragma unroll
    for (int j = 0; j < n; ++j) to[i + j] = part[j];
  });
}

template <bool kWide>
__device__ void store_all(StateFormat format, const StatePlace& state, int64_t at, int count,
                          bool lifts_zeros, const float (&from)[kStateRun]) {
  const float scale = choose_scale(format, state, at, count, from);
  for_state<kWide>(count, [&](int i, auto elements) {
    constexpr int n = decltype(elements)::value;
    float part[n];
#pragma unroll
    for (int j = 0; j < n; ++j) part[j] = from[i + j];
    store_state(format, state, at + i, scale, lifts_zeros, part);
  });
}

}  // namespace viaduct::cuda
