// The elementwise steps of Adafactor: the direction of a piece, and its update.

#include "ops/cuda/kernels/adafactor.h"
#include "ops/cuda/kernels/binned_sum.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

/// Factors in FP32, made in FP64 by the first thread.
struct Factors {
  float clip, share, decay, step;
};

/// The directions of n elements from column i of a row on.
template <int n>
__device__ void direction_at(const AdafactorDirectionRows& of, float clip, int64_t row, int64_t i,
                             float (&out)[n]) {
  const int64_t at = row * of.columns + i;
  float factors[n];
  load_run(of.gradient + at, out);
  load_run(of.second != nullptr ? of.second + at : of.column_factors + i, factors);
#pragma unroll
  for (int j = 0; j < n; ++j) {
    const float g = out[j] * clip;
    out[j] = of.second != nullptr ? g / sqrtf(factors[j]) : g * of.row_factors[row] * factors[j];
  }
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) direction_kernel(AdafactorDirection args) {
  const AdafactorDirectionRows& of = args.of;
  auto& factors = shared<Factors>();
  if (threadIdx.x == 0) {
    factors.clip = static_cast<float>(of.scalars[of.clip_factor]);
    factors.share = static_cast<float>(pow(of.scalars[of.update], args.decay_rate));
  }
  __syncthreads();
  const bool skip = of.scalars[of.skip] != 0;
  const float epsilon = static_cast<float>(args.epsilon1);
  for_elements<kRun>(of.rows, of.columns, kThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    const int64_t at = row * of.columns + i;
    float out[n] = {};
    if (!skip && of.second != nullptr) {
      float g[n], v[n];
      load_run(of.gradient + at, g);
      load_run(of.second + at, v);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        g[j] *= factors.clip;
        v[j] = fmaf(factors.share, fmaf(g[j], g[j], epsilon) - v[j], v[j]);
      }
      store_run(of.second + at, v);
    }
    if (!skip) direction_at(of, factors.clip, row, i, out);
    store_run(args.out + at, out);
  });
}

/// The root of the mean square of `elements` values whose squares are in a state.
__device__ double root_mean_square(const double* state, int64_t elements) {
  return sqrt(value_of(read_state(state)) / static_cast<double>(elements));
}

__device__ Factors factors_of(const AdafactorUpdate& args) {
  const double* const s = args.of.scalars;
  const double lr = s[args.learning_rate];
  const double decay = args.weight_decay * s[args.weight_decay_factor];
  const double most = 1 / sqrt(s[args.of.update]);
  double step = args.relative_step && most < lr ? most : lr;
  if (args.master_squares != nullptr) {
    const double size = root_mean_square(args.master_squares, args.elements);
    step *= args.epsilon2 < size ? size : args.epsilon2;
  }
  const double size = root_mean_square(args.direction_squares, args.elements) / args.clip_threshold;
  step /= 1 < size ? size : 1;
  return {static_cast<float>(s[args.of.clip_factor]), 0, static_cast<float>(lr * decay),
          static_cast<float>(step)};
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) update_kernel(AdafactorUpdate args) {
  const AdafactorDirectionRows& of = args.of;
  auto& factors = shared<Factors>();
  if (of.scalars[of.skip] != 0) return;  // all threads
  if (threadIdx.x == 0) factors = factors_of(args);
  __syncthreads();
  const Factors f = factors;
  for_elements<kRun>(of.rows, of.columns, kThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    const int64_t at = row * of.columns + i;
    float p[n], u[n];
    load_run(args.master + at, p);
    direction_at(of, f.clip, row, i, u);
#pragma unroll
    for (int j = 0; j < n; ++j) p[j] = fmaf(-f.step, u[j], fmaf(-f.decay, p[j], p[j]));
    store_run(args.master + at, p);
    if (args.weight.data != nullptr) store(args.weight.data, args.weight.format, at, p);
  });
}

bool is_wide_piece(const AdafactorDirectionRows& of) {
  return of.columns % 8 == 0 && is_wide(of.gradient) && is_wide(of.second) &&
         (of.second != nullptr || is_wide(of.column_factors));
}

}  // namespace

void adafactor_direction(const AdafactorDirection& args, Stream stream) {
  const bool wide = is_wide_piece(args.of) && is_wide(args.out);
  launch("adafactor_direction", wide ? direction_kernel<8> : direction_kernel<1>,
         grid_for_elements(args.of.rows, args.of.columns, wide ? 8 : 1, kThreads), kThreads, stream,
         args);
}

void adafactor_update(const AdafactorUpdate& args, Stream stream) {
  const bool wide = is_wide_piece(args.of) && is_wide(args.master) && is_wide(args.weight);
  launch("adafactor_update", wide ? update_kernel<8> : update_kernel<1>,
         grid_for_elements(args.of.rows, args.of.columns, wide ? 8 : 1, kThreads), kThreads, stream,
         args);
}

VIADUCT_KERNEL_FILE(adafactor_update)

}  // namespace viaduct::cuda
