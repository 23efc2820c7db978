#pragma once
// Activation functions with their derivatives at a point, with small relative errors where the
// function is small: formulas as in ops/cpu/simd/activation_functions.h, with the device's erfc,
// exp.

#include "ops/cuda/kernels/activation.h"
#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

struct Point {
  float value, derivative;
};

/// NaN stays NaN.
__device__ inline float bounded(float x, float limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

__device__ inline float logistic(float x) {
  return 1.0f / (1.0f + expf(-x));
}

/// x · Φ(x). Arguments of the exponential and of erfc are rounded; both results are corrected to
/// first order for the rounding error, which the tail would otherwise amplify.
__device__ inline Point gelu_at(float x) {
  const float z = bounded(x, 14.5f), half = 0.5f * z, square = z * half;
  const float e = expf(-square);
  const float gauss = fmaf(-e, fmaf(z, half, -square), e);                   // e^(−z²/2)
  constexpr float kRoot = 0.70710678118654752f, kRootRest = 1.21016174e-8f;  // √½ in two parts
  const float size = fabsf(z), a = size * kRoot;
  const float rest = fmaf(size, kRootRest, fmaf(size, kRoot, -a));
  const float tail = 0.5f * fmaf(-1.1283791670955126f * gauss, rest, erfcf(a));
  const float distribution = x < 0 ? tail : 1.0f - tail;
  return {x * distribution, fmaf(z, gauss * 0.39894228040143268f, distribution)};
}

/// x · sigmoid(2u), u = √(2/π) (x + 0.044715 x³).
__device__ inline Point gelu_tanh_at(float x) {
  constexpr float kScale = 1.5957691216057308f, kCubic = 0.044715f;  // 2 √(2/π)
  const float z = bounded(x, 10.5f), square = z * z;
  const float s = logistic(kScale * (z * fmaf(square, kCubic, 1.0f)));
  const float slope = fmaf(square, 3 * kCubic * kScale, kScale);
  return {x * s, fmaf(z, s * (1.0f - s) * slope, s)};
}

/// x · sigmoid(k x). Where the exponential overflows the sigmoid is 0.
__device__ inline Point swish_at(float x, float k) {
  const float z = bounded(x, 104.0f / k), s = logistic(k * z);
  return {x * s, fmaf(z, s * (1.0f - s) * k, s)};
}

__device__ inline Point activation_at(ActivationFunction function, float x) {
  switch (function) {
    case ActivationFunction::gelu:
      return gelu_at(x);
    case ActivationFunction::gelu_tanh:
      return gelu_tanh_at(x);
    case ActivationFunction::quick_gelu:
      return swish_at(x, 1.702f);
    case ActivationFunction::silu:
      return swish_at(x, 1.0f);
    case ActivationFunction::relu:
      return {x < 0 ? 0.0f : x, x > 0 ? 1.0f : 0.0f * x};
    default: {
      const float positive = x < 0 ? 0.0f : x;
      return {positive * positive, positive + positive};
    }
  }
}

}  // namespace viaduct::cuda
