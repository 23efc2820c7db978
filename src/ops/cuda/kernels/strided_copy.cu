// Copies between any strides, dtypes of integers too: an element for each thread, in the order of
// the destination's elements.

#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

__device__ double read_value(const void* from, Format format, int64_t at) {
  if (format == Format::f64) return static_cast<const double*>(from)[at];
  float value[1];
  load(from, format, at, value);
  return static_cast<double>(value[0]);
}

__device__ void write_value(void* to, Format format, int64_t at, double value) {
  if (format == Format::f64) {
    static_cast<double*>(to)[at] = value;
    return;
  }
  const float narrow[1] = {static_cast<float>(value)};
  store(to, format, at, narrow);
}

__device__ void copy_raw(const StridedCopy& args, int64_t from, int64_t to) {
  if (args.raw_bytes == 8) {
    static_cast<uint64_t*>(args.to)[to] = static_cast<const uint64_t*>(args.from)[from];
  } else if (args.raw_bytes == 4) {
    static_cast<uint32_t*>(args.to)[to] = static_cast<const uint32_t*>(args.from)[from];
  } else if (args.raw_bytes == 2) {
    static_cast<uint16_t*>(args.to)[to] = static_cast<const uint16_t*>(args.from)[from];
  } else {
    static_cast<uint8_t*>(args.to)[to] = static_cast<const uint8_t*>(args.from)[from];
  }
}

__device__ void copy_value(const StridedCopy& args, int64_t from, int64_t to) {
  const double value = read_value(args.from, args.from_format, from);
  if (!args.accumulate) {
    write_value(args.to, args.to_format, to, value);
  } else if (args.from_format == Format::f64 || args.to_format == Format::f64) {
    write_value(args.to, args.to_format, to, read_value(args.to, args.to_format, to) + value);
  } else {  // in FP32, which both values have
    const float sum =
        static_cast<float>(read_value(args.to, args.to_format, to)) + static_cast<float>(value);
    write_value(args.to, args.to_format, to, static_cast<double>(sum));
  }
}

__global__ void __launch_bounds__(kThreads) strided_copy_kernel(StridedCopy args) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < args.elements; i += step) {
    int64_t from = 0, to = 0, rest = i;
    for (int d = args.dims - 1; d >= 0; --d) {
      const int64_t index = rest % args.sizes[d];
      rest /= args.sizes[d];
      from += index * args.from_strides[d], to += index * args.to_strides[d];
    }
    args.raw_bytes > 0 ? copy_raw(args, from, to) : copy_value(args, from, to);
  }
}

}  // namespace

void strided_copy(const StridedCopy& args, Stream stream) {
  launch("strided_copy", strided_copy_kernel, grid_for_elements(1, args.elements, 1, kThreads),
         kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(strided_copy)

}  // namespace viaduct::cuda
