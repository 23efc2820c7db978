// SGD and Lion: one launch for a list of runs, as AdamW's (adamw.cu).

#include "ops/cuda/kernels/momentum.h"

#include "ops/cuda/kernels/run_list.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kElementsPerBlock = kThreads * 16;

/// Factors in FP32, made in FP64.
struct Factors {
  float clip, rate, decay, momentum, beta1, rest1, beta2, rest2;
};

__device__ Factors factors_of(const MomentumList& list) {
  const double* const s = list.scalars;
  const double rate = s[list.learning_rate];
  const double decay = list.weight_decay * s[list.weight_decay_factor];
  Factors f;
  f.clip = static_cast<float>(s[list.clip_factor]);
  f.rate = static_cast<float>(rate);
  f.decay = static_cast<float>(list.lion ? rate * decay : decay);
  f.momentum = static_cast<float>(list.momentum);
  f.beta1 = static_cast<float>(list.beta1), f.rest1 = static_cast<float>(1 - list.beta1);
  f.beta2 = static_cast<float>(list.beta2), f.rest2 = static_cast<float>(1 - list.beta2);
  return f;
}

__device__ void update_lion(const Factors& f, float g, float& p, float& m) {
  const float u = fmaf(f.beta1, m, f.rest1 * g);
  // The rate with the sign of u, and nothing where u is 0.
  const float step = fabsf(u) > 0 ? copysignf(f.rate, u) : 0;
  p = fmaf(-f.decay, p, p) - step;
  m = fmaf(f.beta2, m, f.rest2 * g);
}

__device__ void update_sgd(const Factors& f, float g, float& p, float& m) {
  m = fmaf(f.momentum, m, fmaf(f.decay, p, g));
  p = fmaf(-f.rate, m, p);
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) momentum_kernel(MomentumList args) {
  auto& factors = shared<Factors>();
  if (args.scalars[args.skip] != 0) return;  // all threads
  if (threadIdx.x == 0) factors = factors_of(args);
  __syncthreads();
  const Factors f = factors;
  const MomentumRun& run = args.run[run_of_block(args)];
  const int64_t begin = (int64_t{blockIdx.x} - run.first_block) * kElementsPerBlock;
  const int64_t count = min(kElementsPerBlock, run.elements - begin);
  for_row<kRun>(static_cast<int>(threadIdx.x), kThreads, count, [&](int64_t at, auto elements) {
    constexpr int n = decltype(elements)::value;
    const int64_t i = begin + at;
    float p[n], m[n], g[n];
    load_run(run.master + i, p);
    load_run(run.state + i, m);
    load_run(run.gradient + i, g);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float clipped = g[j] * f.clip;
      args.lion ? update_lion(f, clipped, p[j], m[j]) : update_sgd(f, clipped, p[j], m[j]);
    }
    store_run(run.master + i, p);
    store_run(run.state + i, m);
    if (run.weight != nullptr) store(run.weight, args.weight, i, p);
  });
}

}  // namespace

void momentum(MomentumList& args, Stream stream) {
  static_assert(sizeof(MomentumList) <= 4096, "what all drivers take as parameters");
  bool wide = true;
  for (int r = 0; r < args.runs; ++r) {
    const MomentumRun& run = args.run[r];
    wide = wide && is_wide(run.master) && is_wide(run.state) && is_wide(run.gradient) &&
           is_wide(run.weight);
  }
  launch("momentum", wide ? momentum_kernel<8> : momentum_kernel<1>,
         Grid(number_blocks(args, kElementsPerBlock)), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(momentum)

}  // namespace viaduct::cuda
