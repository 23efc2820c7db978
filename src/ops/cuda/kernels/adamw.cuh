#pragma once
// The arithmetic of AdamW on the device, for masters and moments in FP32 and in other formats.

#include "ops/cuda/kernels/adamw.h"
#include "ops/cuda/kernels/run_list.cuh"

namespace viaduct::cuda {

/// Factors in FP32, made in FP64.
struct AdamWFactors {
  float clip, decay, beta1, rest1, beta2, rest2, step, correction2, epsilon;
};

__device__ inline AdamWFactors factors_of(const AdamWConstants& c) {
  const double* const s = c.scalars;
  const double rate = s[c.learning_rate];
  AdamWFactors f;
  f.clip = static_cast<float>(s[c.clip_factor]);
  f.decay = static_cast<float>(rate * c.weight_decay * s[c.weight_decay_factor]);
  f.beta1 = static_cast<float>(c.beta1), f.rest1 = static_cast<float>(1 - c.beta1);
  f.beta2 = static_cast<float>(c.beta2), f.rest2 = static_cast<float>(1 - c.beta2);
  f.step = static_cast<float>(rate * c.learning_rate_multiplier / s[c.bias_correction1]);
  f.correction2 = static_cast<float>(1 / s[c.bias_correction2]);
  f.epsilon = static_cast<float>(c.epsilon);
  return f;
}

__device__ inline void update(const AdamWFactors& f, float gradient, float& p, float& m, float& v) {
  const float g = gradient * f.clip;
  m = fmaf(f.beta1, m, f.rest1 * g);
  v = fmaf(f.beta2, v, f.rest2 * (g * g));
  const float size = sqrtf(v * f.correction2) + f.epsilon;
  p = fmaf(-f.step, m / size, fmaf(-f.decay, p, p));
}

}  // namespace viaduct::cuda
