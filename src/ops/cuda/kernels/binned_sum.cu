// Reproducible sums: each thread cuts its values at the borders of three bins, from the bin of its
// own largest value down, and adds the pieces as whole numbers. Threads, and then blocks, merge
// their bins.

#include "ops/cuda/kernels/binned_sum.h"

#include "ops/cuda/kernels/binned_sum.cuh"
#include "ops/cuda/kernels/run_list.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;
constexpr uint64_t kInfinity = uint64_t{0x7ff} << 52;

__device__ uint64_t bits_of(double value) {
  return static_cast<uint64_t>(__double_as_longlong(value));
}

/// The sums of a thread, in units of its bins: sums of up to 2^23 pieces below 2^40 fit.
struct Pieces {
  int top = -1;
  int64_t bins[kBins] = {};
  double scale = 0;  // turns values into units of the top bin
  bool finite = true;
};

/// The top bin for values whose largest magnitude has these bits: the lowest with
/// |x| < 2^(39 + exponent of its lowest bit), and not below the third.
__device__ int top_bin(uint64_t magnitude) {
  const int exponent = static_cast<int>(magnitude >> 52) - 1022;  // |x| < 2^exponent
  const int above = exponent - (kBinBits - 1) - kLowestExponent;
  const int bin = above <= 0 ? 0 : (above + kBinBits - 1) / kBinBits;
  return bin > kBins - 1 ? bin : kBins - 1;
}

// Adding 1.5 · 2^52 units rounds to a multiple of the unit, and the bits of the sum, taken as an
// integer, are those of the constant plus that multiple.
template <int n>
__device__ void add_values(const double (&values)[n], Pieces& sum) {
  uint64_t most = 0;
#pragma unroll
  for (int j = 0; j < n; ++j) most = LargestOf{}(most, bits_of(values[j]) & ~(uint64_t{1} << 63));
  if (most >= kInfinity) sum.finite = false;
  if (most >= kInfinity || most == 0) return;
  const int top = top_bin(most);
  if (top > sum.top) {
    raise(sum.top, top, sum.bins);
    sum.top = top;
    sum.scale = ldexp(1.0, -(kLowestExponent + top * kBinBits));
  }
  constexpr double kUnit = 0x1p-40;
  constexpr double kMagic[kBins] = {0x1.8p52, 0x1.8p52 * kUnit, 0x1.8p52 * kUnit * kUnit};
#pragma unroll
  for (int j = 0; j < n; ++j) {
    double rest = values[j] * sum.scale;
#pragma unroll
    for (int b = 0; b < kBins; ++b) {
      const double piece = rest + kMagic[b];
      sum.bins[b] += static_cast<int64_t>(bits_of(piece) - bits_of(kMagic[b]));
      rest -= piece - kMagic[b];
    }
  }
}

template <int n>
__device__ void load_values(const SumList& args, const SumRun& run, int64_t i, double (&to)[n]) {
  if (args.format == Format::f64) {
    const Run<double, n> values =
        *reinterpret_cast<const Run<double, n>*>(static_cast<const double*>(run.data) + i);
#pragma unroll
    for (int j = 0; j < n; ++j) to[j] = values.values[j];
  } else {
    float values[n];
    load(run.data, args.format, i, values);
#pragma unroll
    for (int j = 0; j < n; ++j) to[j] = static_cast<double>(values[j]);
  }
  if (args.weight != nullptr) {
    float weights[n];
    load_run(args.weight + i, weights);
#pragma unroll
    for (int j = 0; j < n; ++j) to[j] *= static_cast<double>(weights[j]);
  }
  if (args.squared) {
#pragma unroll
    for (int j = 0; j < n; ++j) to[j] *= to[j];
  }
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) sum_runs_kernel(SumList args) {
  const SumRun& run = args.run[run_of_block(args)];
  const int64_t begin = (int64_t{blockIdx.x} - run.first_block) * args.elements_per_block;
  const int64_t count = min(args.elements_per_block, run.elements - begin);
  Pieces own;
  for_row<kRun>(static_cast<int>(threadIdx.x), kThreads, count, [&](int64_t at, auto elements) {
    double values[decltype(elements)::value];
    load_values(args, run, begin + at, values);
    add_values(values, own);
  });
  BinnedSum sum;
  sum.top = own.top;
  sum.finite = own.finite;
#pragma unroll
  for (int i = 0; i < kBins; ++i) sum.low[i] = own.bins[i];
  sum = join_sums<kThreads>(sum);
  if (threadIdx.x == 0) write_state(sum, args.states + int64_t{blockIdx.x} * kStateSize);
}

__global__ void __launch_bounds__(kThreads)
    merge_sums_kernel(const double* states, int64_t count, double* state) {
  BinnedSum sum;
  if (threadIdx.x == 0) sum = read_state(state);
  for (int64_t i = threadIdx.x; i < count; i += kThreads)
    add_state(sum, read_state(states + i * kStateSize));
  sum = join_sums<kThreads>(sum);
  if (threadIdx.x == 0) write_state(sum, state);
}

/// Slots of the wide form: (high, low) of each bin, whether it is the top one, and not finite.
constexpr int kWideTop = 2 * kAllBins, kWideFinite = 3 * kAllBins, kWideSize = kWideFinite + 1;

__global__ void __launch_bounds__(kThreads) widen_kernel(const double* state, int64_t* wide) {
  const int i = static_cast<int>(threadIdx.x), top = static_cast<int>(state[0]) - 1;
  if (i >= kWideSize) return;
  int64_t value = 0;
  if (i == kWideFinite) {
    value = static_cast<int64_t>(state[7]);
  } else if (i >= kWideTop) {
    value = i - kWideTop == top ? 1 : 0;
  } else {
    const int below = top - i / 2;
    if (top >= 0 && below >= 0 && below < kBins)
      value = static_cast<int64_t>(state[1 + 2 * below + i % 2]);
  }
  wide[i] = value;
}

__global__ void narrow_kernel(const int64_t* wide, double* state) {
  BinnedSum sum;
  sum.finite = wide[kWideFinite] == 0;
  sum.top = kAllBins - 1;
  while (sum.top >= 0 && wide[kWideTop + sum.top] == 0) --sum.top;
#pragma unroll
  for (int i = 0; i < kBins; ++i) {
    if (sum.top < 0) break;
    sum.high[i] = wide[2 * (sum.top - i)], sum.low[i] = wide[2 * (sum.top - i) + 1];
  }
  write_state(sum, state);
}

__global__ void sum_value_kernel(const double* state, double* out) {
  *out = value_of(read_state(state));
}

__global__ void gradient_norm_kernel(NormScalars args) {
  double* const s = args.scalars;
  const double factor = s[args.gradient_factor], limit = s[args.clip_norm];
  const double norm = factor * sqrt(value_of(read_state(args.state)));
  s[args.gradient_norm] = norm;
  const double clip = limit / (norm + 1e-6);
  s[args.clip_factor] = limit > 0 && clip < 1 ? factor * clip : factor;
  const bool finite = (bits_of(norm) & kInfinity) != kInfinity;
  s[args.skip] = args.skip_not_finite && !finite ? 1 : 0;
}

}  // namespace

int64_t sum_runs(SumList& args, Stream stream) {
  static_assert(sizeof(SumList) <= 4096, "what all drivers take as parameters");
  const int64_t blocks = number_blocks(args, args.elements_per_block);
  bool wide = is_wide(args.weight);
  for (int r = 0; r < args.runs; ++r) wide = wide && is_wide(args.run[r].data);
  launch("sum_runs", wide ? sum_runs_kernel<8> : sum_runs_kernel<1>, Grid(blocks), kThreads, stream,
         args);
  return blocks;
}

void merge_sums(const double* states, int64_t count, double* state, Stream stream) {
  launch("merge_sums", merge_sums_kernel, Grid(1), kThreads, stream, states, count, state);
}

void widen_sum(const double* state, int64_t* wide, Stream stream) {
  static_assert(kWideSize <= kThreads);
  launch("widen_sum", widen_kernel, Grid(1), kThreads, stream, state, wide);
}

void narrow_sum(const int64_t* wide, double* state, Stream stream) {
  launch("narrow_sum", narrow_kernel, Grid(1), 1, stream, wide, state);
}

void sum_value(const double* state, double* out, Stream stream) {
  launch("sum_value", sum_value_kernel, Grid(1), 1, stream, state, out);
}

void gradient_norm(const NormScalars& args, Stream stream) {
  launch("gradient_norm", gradient_norm_kernel, Grid(1), 1, stream, args);
}

VIADUCT_KERNEL_FILE(binned_sum)

}  // namespace viaduct::cuda
