// AdamW: one launch for a list of runs. A block finds the run that it belongs to, makes the step's
// factors from the scalars in device memory, and updates its elements.

#include "ops/cuda/kernels/adamw.h"

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kElementsPerBlock = kThreads * 16;

/// Factors in FP32, made in FP64.
struct Factors {
  float clip, decay, beta1, rest1, beta2, rest2, step, correction2, epsilon;
};

__device__ Factors factors_of(const AdamWConstants& c) {
  const double* const s = c.scalars;
  const double rate = s[c.learning_rate];
  Factors f;
  f.clip = static_cast<float>(s[c.clip_factor]);
  f.decay = static_cast<float>(rate * c.weight_decay * s[c.weight_decay_factor]);
  f.beta1 = static_cast<float>(c.beta1), f.rest1 = static_cast<float>(1 - c.beta1);
  f.beta2 = static_cast<float>(c.beta2), f.rest2 = static_cast<float>(1 - c.beta2);
  f.step = static_cast<float>(rate * c.learning_rate_multiplier / s[c.bias_correction1]);
  f.correction2 = static_cast<float>(1 / s[c.bias_correction2]);
  f.epsilon = static_cast<float>(c.epsilon);
  return f;
}

__device__ void update(const Factors& f, float gradient, float& p, float& m, float& v) {
  const float g = gradient * f.clip;
  m = fmaf(f.beta1, m, f.rest1 * g);
  v = fmaf(f.beta2, v, f.rest2 * (g * g));
  const float size = sqrtf(v * f.correction2) + f.epsilon;
  p = fmaf(-f.step, m / size, fmaf(-f.decay, p, p));
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) adamw_kernel(AdamWList args) {
  auto& factors = shared<Factors>();
  if (args.constants.scalars[args.constants.skip] != 0) return;  // all threads
  if (threadIdx.x == 0) factors = factors_of(args.constants);
  __syncthreads();
  const Factors f = factors;
  int r = 0;
  while (r + 1 < args.runs && args.run[r + 1].first_block <= int64_t{blockIdx.x}) ++r;
  const AdamWRun& run = args.run[r];
  const int64_t begin = (int64_t{blockIdx.x} - run.first_block) * kElementsPerBlock;
  const int64_t left = run.elements - begin;
  const int64_t count = left < kElementsPerBlock ? left : kElementsPerBlock;
  for_row<kRun>(static_cast<int>(threadIdx.x), kThreads, count, [&](int64_t at, auto elements) {
    constexpr int n = decltype(elements)::value;
    const int64_t i = begin + at;
    float p[n], m[n], v[n], g[n];
    load_run(run.master + i, p);
    load_run(run.first + i, m);
    load_run(run.second + i, v);
    load(run.gradient, i, g);
#pragma unroll
    for (int j = 0; j < n; ++j) update(f, g[j], p[j], m[j], v[j]);
    store_run(run.master + i, p);
    store_run(run.first + i, m);
    store_run(run.second + i, v);
    if (run.weight.data != nullptr) store(run.weight.data, run.weight.format, i, p);
  });
}

bool is_wide_run(const AdamWRun& run) {
  return is_wide(run.master) && is_wide(run.first) && is_wide(run.second) &&
         is_wide(run.gradient) && is_wide(run.weight);
}

}  // namespace

void adamw(AdamWList& args, Stream stream) {
  static_assert(sizeof(AdamWList) <= 4096, "what all drivers take as parameters");
  int64_t blocks = 0;
  bool wide = true;
  for (int r = 0; r < args.runs; ++r) {
    args.run[r].first_block = blocks;
    blocks += blocks_for(args.run[r].elements, kElementsPerBlock);
    wide = wide && is_wide_run(args.run[r]);
  }
  launch("adamw", wide ? adamw_kernel<8> : adamw_kernel<1>, Grid(blocks), kThreads, stream, args);
}

}  // namespace viaduct::cuda
