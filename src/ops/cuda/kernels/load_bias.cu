// The bias that balances a router's experts (ops/load_bias.h), in FP32 or FP64.

#include "ops/cuda/kernels/expert_order.h"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

__device__ double value_at(const Vector& vector, int64_t i) {
  return vector.format == Format::f64
             ? static_cast<const double*>(vector.data)[i]
             : static_cast<double>(static_cast<const float*>(vector.data)[i]);
}

__global__ void __launch_bounds__(kThreads) load_error_kernel(LoadErrors args) {
  int64_t all = 0;
  for (int64_t e = threadIdx.x; e < args.experts; e += kThreads) all += args.counts[e];
  all = join_block<kThreads>(all, SumOf{});
  for (int64_t e = threadIdx.x; e < args.experts; e += kThreads) {
    const int64_t error = args.experts * args.counts[e] - all;
    if (args.out.format == Format::f64) {
      double& out = static_cast<double*>(args.out.data)[e];
      out = args.accumulate ? out + static_cast<double>(error) : static_cast<double>(error);
    } else {
      float& out = static_cast<float*>(args.out.data)[e];
      out = args.accumulate ? out + static_cast<float>(error) : static_cast<float>(error);
    }
  }
}

__global__ void __launch_bounds__(kThreads) move_load_bias_kernel(LoadBias args) {
  if (args.scalars[args.skip] != 0) return;
  for_elements<1>(1, args.count, kThreads, [&](int64_t, int64_t e, auto) {
    const double error = value_at(args.error, e);
    float moved[1];
    if (args.bias.format == Format::f64) {
      double& bias = static_cast<double*>(args.bias.data)[e];
      if (args.set) {
        bias = error != error ? bias : error;
      } else {
        bias -= error > 0 ? args.rate : error < 0 ? -args.rate : 0;
      }
      moved[0] = static_cast<float>(bias);
    } else {
      const float rate = static_cast<float>(args.rate);
      float& bias = static_cast<float*>(args.bias.data)[e];
      if (args.set) {
        bias = error != error ? bias : static_cast<float>(error);
      } else {
        bias -= error > 0 ? rate : error < 0 ? -rate : 0.0f;
      }
      moved[0] = bias;
    }
    if (args.weight.data == nullptr) return;
    if (args.weight.format == Format::f64) {
      static_cast<double*>(args.weight.data)[e] = static_cast<double>(moved[0]);
    } else {
      store(args.weight.data, args.weight.format, e, moved);
    }
  });
}

}  // namespace

void load_error(const LoadErrors& args, Stream stream) {
  launch("load_error", load_error_kernel, Grid(1), kThreads, stream, args);
}

void move_load_bias(const LoadBias& args, Stream stream) {
  launch("move_load_bias", move_load_bias_kernel, grid_for_elements(1, args.count, 1, kThreads),
         kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(load_bias)

}  // namespace viaduct::cuda
