// The elementwise steps of Muon around its products.

#include "ops/cuda/kernels/kernel.h"
#include "ops/cuda/kernels/momentum.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

/// Calls f(i, Count<n>) for this thread's share of flat elements.
template <int kRun, class F>
__device__ void for_flat(int64_t elements, F&& f) {
  for_elements<kRun>(1, elements, kThreads, [&](int64_t, int64_t i, auto count) { f(i, count); });
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) muon_momentum_kernel(MuonMomentum args) {
  if (args.scalars[args.skip] != 0) return;
  const float clip = static_cast<float>(args.scalars[args.clip_factor]);
  const float keep = static_cast<float>(args.momentum);
  const float take = static_cast<float>(1 - args.momentum);
  for_flat<kRun>(args.elements, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float g[n], m[n], out[n];
    load_run(args.gradient + i, g);
    load_run(args.state + i, m);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float clipped = g[j] * clip;
      m[j] = fmaf(keep, m[j], take * clipped);
      out[j] = args.nesterov ? fmaf(keep, m[j], take * clipped) : m[j];
    }
    store_run(args.state + i, m);
    store_run(args.out + i, out);
  });
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) normalize_kernel(Normalized args) {
  const double norm = sqrt(*args.sum);
  const float factor = static_cast<float>(1 / (norm < args.epsilon ? args.epsilon : norm));
  for_flat<kRun>(args.elements, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n];
    load_run(args.x + i, x);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] *= factor;
    store_run(args.x + i, x);
  });
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) muon_update_kernel(MuonUpdate args) {
  if (args.scalars[args.skip] != 0) return;
  const double lr = args.scalars[args.learning_rate];
  const double weight_decay = args.weight_decay * args.scalars[args.weight_decay_factor];
  const float rate = static_cast<float>(lr), decay = static_cast<float>(lr * weight_decay);
  for_flat<kRun>(args.elements, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float p[n], update[n];
    load_run(args.master + i, p);
    load_run(args.update + i, update);
#pragma unroll
    for (int j = 0; j < n; ++j) p[j] = fmaf(-rate, update[j], fmaf(-decay, p[j], p[j]));
    store_run(args.master + i, p);
    if (args.weight.data != nullptr) store(args.weight.data, args.weight.format, i, p);
  });
}

Grid grid_of(int64_t elements, bool wide) {
  return grid_for_elements(1, elements, wide ? 8 : 1, kThreads);
}

}  // namespace

void muon_momentum(const MuonMomentum& args, Stream stream) {
  const bool wide = is_wide(args.gradient) && is_wide(args.state) && is_wide(args.out);
  launch("muon_momentum", wide ? muon_momentum_kernel<8> : muon_momentum_kernel<1>,
         grid_of(args.elements, wide), kThreads, stream, args);
}

void normalize(const Normalized& args, Stream stream) {
  const bool wide = is_wide(args.x);
  launch("normalize", wide ? normalize_kernel<8> : normalize_kernel<1>,
         grid_of(args.elements, wide), kThreads, stream, args);
}

void muon_update(const MuonUpdate& args, Stream stream) {
  const bool wide = is_wide(args.master) && is_wide(args.update) && is_wide(args.weight);
  launch("muon_update", wide ? muon_update_kernel<8> : muon_update_kernel<1>,
         grid_of(args.elements, wide), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(muon)

}  // namespace viaduct::cuda
