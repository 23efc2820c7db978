// Normal random numbers in FP64 with the cpu's operations (ops/cpu/rows/random_normal_kernels.h
// says where the series come from), so that weights at start have the same bits on every device.

#include "ops/cuda/kernels/kernel.h"
#include "ops/cuda/kernels/philox.cuh"
#include "ops/cuda/kernels/random.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 128;

__device__ uint64_t bits_of(double value) {
  return static_cast<uint64_t>(__double_as_longlong(value));
}
__device__ double double_of(uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}

/// Σ coefficients[i] z^i.
template <int n>
__device__ double polynomial(const double (&coefficients)[n], double z) {
  double sum = coefficients[n - 1];
#pragma unroll
  for (int i = n - 2; i >= 0; --i) sum = fma(sum, z, coefficients[i]);
  return sum;
}

/// ln u for u in (0, 1).
__device__ double logarithm(double u) {
  constexpr double kSeries[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  constexpr uint64_t kOne = uint64_t{1024} << 52;
  const uint64_t exponent = (bits_of(u) - bits_of(0.70710678118654752) + kOne) >> 52;
  const double m = double_of(bits_of(u) - (exponent << 52) + kOne);
  const double k = double_of(exponent | bits_of(0x1p52)) - (0x1p52 + 1024);
  const double s = (m - 1) / (m + 1), z = s * s;
  const double tail = s * z * polynomial(kSeries, z);
  const double low = fma(k, 0x1.a39ef35793c76p-33, tail);
  return fma(k, 0x1.62e42feep-1, s + s + low);
}

/// cos 2πu (even) or sin 2πu.
__device__ double turned(double u, bool odd_element) {
  constexpr double kSine[] = {
      -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  constexpr double kCosine[] = {
      -1.0 / 2,       1.0 / 24,        -1.0 / 720,         1.0 / 40320,
      -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
  const double quarters = u * 4, shifted = quarters + 0x1.8p52;
  const uint64_t quarter = bits_of(shifted);
  const double angle = (quarters - (shifted - 0x1.8p52)) * 1.5707963267948966;
  const double z = angle * angle;
  const double s = fma(angle * z, polynomial(kSine, z), angle);
  const double c = fma(z, polynomial(kCosine, z), 1.0);
  const bool odd_quarter = (quarter & 1) != 0;
  const uint64_t sign = (odd_element ? quarter : quarter + 1) >> 1 & 1;
  const double value = odd_quarter != odd_element ? s : c;
  return double_of(bits_of(value) ^ sign << 63);
}

/// Uniform in (0, 1) in steps of 2^-52.
__device__ double uniform52(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 12;
  return (double_of(bits | bits_of(0x1p52)) - 0x1p52 + 0.5) * 0x1p-52;
}

__global__ void __launch_bounds__(kThreads) random_normal_kernel(NormalRows args) {
  for_elements<1>(args.rows, args.width, kThreads, [&](int64_t r, int64_t c, auto) {
    const int64_t row = args.first_row + (args.transposed ? c : r);
    const int64_t column = args.first_column + (args.transposed ? r : c);
    const auto element = static_cast<uint64_t>(row * args.row_elements + column);
    const Words words = philox(args.key, element / 2, 0);
    const double radius = sqrt(-2.0 * logarithm(uniform52(words.w0, words.w1)));
    const double n = radius * turned(uniform52(words.w2, words.w3), element % 2 != 0);
    const double value = args.mean + args.deviation * n;
    void* const to = address_of(args.out, r);
    if (args.out.format == Format::f64) {
      static_cast<double*>(to)[c] = value;
    } else {
      const float narrow[1] = {static_cast<float>(value)};
      store(to, args.out.format, c, narrow);
    }
  });
}

}  // namespace

void random_normal(const NormalRows& args, Stream stream) {
  launch("random_normal", random_normal_kernel,
         grid_for_elements(args.rows, args.width, 1, kThreads), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(random_normal)

}  // namespace viaduct::cuda
