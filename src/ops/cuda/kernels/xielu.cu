// xIELU and its gradients: those of the slopes are sums of each part of the rows, then of the
// parts, in FP64 and in an order that the shape alone decides.

#include "ops/cuda/kernels/xielu.h"

#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr float kBeta = 0.5f, kEpsilon = -1e-6f;

__device__ float softplus_of(float x) {
  return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)));
}
__device__ float sigmoid_of(float x) {
  return 1.0f / (1.0f + expf(-x));
}
__device__ float only(const Vector& alpha) {
  float value[1];
  load(alpha, 0, value);
  return value[0];
}

struct Slopes {
  float positive, negative;
  __device__ Slopes(const Vector& alpha_p, const Vector& alpha_n)
      : positive(softplus_of(only(alpha_p))), negative(kBeta + softplus_of(only(alpha_n))) {}
  /// What the slope of this x multiplies.
  __device__ float basis(float x) const {
    return x > 0.0f ? x * x : expm1f(kEpsilon < x ? kEpsilon : x) - x;
  }
  __device__ float value(float x) const {
    return (x > 0.0f ? positive : negative) * basis(x) + kBeta * x;
  }
  __device__ float derivative(float x) const {
    const float exponential = x < kEpsilon ? expf(x) : 0.0f;
    return (x > 0.0f ? 2.0f * positive * x : negative * (exponential - 1.0f)) + kBeta;
  }
};

template <int kRun>
__global__ void __launch_bounds__(kRowThreads) xielu_forward_kernel(XieluRows args) {
  const Slopes slopes(args.alpha_p, args.alpha_n);
  for_elements<kRun>(args.rows, args.width, kRowThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n];
    load(address_of(args.in, row), args.in.format, i, x);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] = slopes.value(x[j]);
    store(address_of(args.out, row), args.out.format, i, x);
  });
}

struct SlopeTerms {
  double p[kRowThreads], n[kRowThreads];
};

/// A block a part.
template <int kRun>
__global__ void __launch_bounds__(kRowThreads) xielu_backward_kernel(XieluGradients args) {
  const Slopes slopes(args.alpha_p, args.alpha_n);
  double of_p = 0, of_n = 0;
  const int64_t part = blockIdx.x, end = args.rows * (part + 1) / args.parts;
  for (int64_t row = args.rows * part / args.parts; row < end; ++row) {
    const void* const in = address_of(args.in, row);
    const void* const d_out = address_of(args.d_out, row);
    void* const d_in = address_of(args.d_in, row);
    for_row<kRun>(static_cast<int>(threadIdx.x), kRowThreads, args.width,
                  [&](int64_t i, auto count) {
                    constexpr int n = decltype(count)::value;
                    float x[n], d[n];
                    load(in, args.in.format, i, x);
                    load(d_out, args.d_out.format, i, d);
#pragma unroll
                    for (int j = 0; j < n; ++j) {
                      const auto term = static_cast<double>(d[j] * slopes.basis(x[j]));
                      (x[j] > 0.0f ? of_p : of_n) += term;
                      d[j] *= slopes.derivative(x[j]);
                    }
                    store(d_in, args.d_in.format, i, d);
                  });
  }
  auto& terms = shared<SlopeTerms>();
  terms.p[threadIdx.x] = of_p, terms.n[threadIdx.x] = of_n;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kRowThreads; ++i) of_p += terms.p[i], of_n += terms.n[i];
  args.sums[2 * part] = of_p, args.sums[2 * part + 1] = of_n;
}

__global__ void __launch_bounds__(kWarpLanes) xielu_sums_kernel(XieluGradients args) {
  if (threadIdx.x != 0) return;
  double of_p = 0, of_n = 0;
  for (int64_t part = 0; part < args.parts; ++part)
    of_p += args.sums[2 * part], of_n += args.sums[2 * part + 1];
  *args.d_alpha_p += static_cast<float>(of_p) * sigmoid_of(only(args.alpha_p));
  *args.d_alpha_n += static_cast<float>(of_n) * sigmoid_of(only(args.alpha_n));
}

}  // namespace

void xielu_forward(const XieluRows& args, Stream stream) {
  const bool wide = is_wide(args.in) && is_wide(args.out);
  launch("xielu_forward", wide ? xielu_forward_kernel<8> : xielu_forward_kernel<1>,
         grid_for_elements(args.rows, args.width, wide ? 8 : 1, kRowThreads), kRowThreads, stream,
         args);
}

void xielu_backward(const XieluGradients& args, Stream stream) {
  const bool wide = is_wide(args.in) && is_wide(args.d_out) && is_wide(args.d_in);
  launch("xielu_backward", wide ? xielu_backward_kernel<8> : xielu_backward_kernel<1>,
         Grid(args.parts), kRowThreads, stream, args);
  if (args.d_alpha_p != nullptr)
    launch("xielu_sums", xielu_sums_kernel, Grid(1), kWarpLanes, stream, args);
}

VIADUCT_KERNEL_FILE(xielu)

}  // namespace viaduct::cuda
