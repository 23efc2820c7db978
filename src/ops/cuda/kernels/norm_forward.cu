// Norms: statistics of a row, then the row again. Rows are short enough for the second and third
// reading to come from a cache.

#include "ops/cuda/kernels/norm.h"
#include "ops/cuda/kernels/produced_rows.cuh"

namespace viaduct::cuda {
namespace {

/// Σ over the row of f(element).
template <int kRun, class Group, class F>
__device__ float sum_over(const Rows& x, int64_t row, int64_t width, F&& f) {
  float sum = 0;
  const void* const from = address_of(x, row);
  for_row<kRun>(Group::thread(), Group::kThreadsOfRow, width, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float values[n];
    load(from, x.format, i, values);
#pragma unroll
    for (int j = 0; j < n; ++j) sum += f(values[j]);
  });
  return Group::join(sum, SumOf{});
}

/// Variance about the mean, which it also corrects by the deviation that is left: of a row whose
/// mean is large compared with its deviation the first sum has lost digits of both (Chan, Golub and
/// LeVeque 1983, equation 1.7).
template <int kRun, class Group>
__device__ float variance(const Rows& x, int64_t row, int64_t width, float& mean) {
  const float first = mean, inverse = 1.0f / static_cast<float>(width);
  const float left = sum_over<kRun, Group>(x, row, width, [=](float v) { return v - first; });
  const float square =
      sum_over<kRun, Group>(x, row, width, [=](float v) { return (v - first) * (v - first); });
  const float off = left * inverse;
  mean += off;
  return square * inverse - off * off;
}

struct Statistics {
  float mean, rstd;
};

/// Of a row, by all threads of its group; also stores them.
template <int kRun, class Group>
__device__ Statistics statistics_of(const NormForwardRows& args, int64_t row) {
  const int64_t width = args.width;
  float mean = 0, spread;
  if (args.layer_norm) {
    mean = sum_over<kRun, Group>(args.x, row, width, [](float v) { return v; }) /
           static_cast<float>(width);
    spread = variance<kRun, Group>(args.x, row, width, mean);
  } else {
    spread = sum_over<kRun, Group>(args.x, row, width, [](float v) { return v * v; }) /
             static_cast<float>(width);
  }
  const float rstd = 1.0f / sqrtf(spread + args.epsilon);
  if (Group::thread() == 0) {
    if (args.mean != nullptr) args.mean[row] = mean;
    if (args.rstd != nullptr) args.rstd[row] = rstd;
  }
  return {mean, rstd};
}

/// Makes and stores the elements [i, i + n) of a row of y.
template <int n>
__device__ void normalize(const NormForwardRows& args, const Statistics& of, const void* x_row,
                          void* y_row, int64_t i, float (&y)[n]) {
  float x[n], w[n], b[n] = {};
  load(x_row, args.x.format, i, x);
  load(args.weight, i, w);
  if (args.bias.data != nullptr) load(args.bias, i, b);
#pragma unroll
  for (int j = 0; j < n; ++j) {
    const float x_hat = (x[j] - of.mean) * of.rstd, scale = w[j] + args.weight_offset;
    y[j] = args.bias.data != nullptr ? fmaf(x_hat, scale, b[j]) : x_hat * scale;
  }
  store(y_row, args.y.format, i, y);
}

template <int kRun, int kThreads>
__global__ void __launch_bounds__(kRowThreads) norm_forward_kernel(NormForwardRows args) {
  using Group = RowGroup<kThreads>;
  const int64_t row = Group::row();
  if (row >= args.rows) return;  // the whole group
  const Statistics of = statistics_of<kRun, Group>(args, row);
  const void* const x_row = address_of(args.x, row);
  void* const y_row = address_of(args.y, row);
  for_row<kRun>(Group::thread(), kThreads, args.width, [&](int64_t i, auto count) {
    float y[decltype(count)::value];
    normalize(args, of, x_row, y_row, i, y);
  });
}

/// Rows of a block that other forms are made of together: those of its groups, or the rows of a
/// rotation.
template <int kThreads>
__host__ __device__ constexpr int64_t rows_together(bool rotates) {
  return rotates ? kRotatedRows : kRowThreads / kThreads;
}

/// The same with other forms of y. Blocks take several bands of rows each.
template <int kRun, int kThreads>
__global__ void __launch_bounds__(kRowThreads, 3) norm_forms_kernel(NormForwardRows args) {
  using Group = RowGroup<kThreads>;
  constexpr int kRowsAtOnce = kRowThreads / kThreads;
  BlockForms forms(args.forms);
  const int64_t band = rows_together<kThreads>(forms.rotates());
  for (int64_t begin = blockIdx.x * band; begin < args.rows; begin += gridDim.x * band) {
    const int64_t end = min(begin + band, args.rows);
    for (int64_t row = begin + threadIdx.x / kThreads; row < end; row += kRowsAtOnce) {
      const Statistics of = statistics_of<kRun, Group>(args, row);
      const void* const x_row = address_of(args.x, row);
      void* const y_row = address_of(args.y, row);
      for (int64_t first = 0; first < args.width; first += kThreads * kFormRun) {
        const int64_t i = first + Group::thread() * kFormRun;
        float y[kFormRun];
        make_run<kRun>(i, args.width, y, [&](int64_t at, auto& part) {
          normalize(args, of, x_row, y_row, at, part);
        });
        forms.add(args.y.format, row, i, args.width, y);
      }
    }
    if (!forms.rotates()) continue;
    __syncthreads();
    for (int64_t column = threadIdx.x; column < args.width; column += kRowThreads)
      forms.add_rotated(args.y, begin, column);
  }
  forms.finish();
}

}  // namespace

void norm_forward(const NormForwardRows& args, Stream stream) {
  const bool wide =
      is_wide(args.x) && is_wide(args.y) && is_wide(args.weight) && is_wide(args.bias);
  with_row_group(wide, args.width, [&](auto run, auto threads) {
    constexpr int kRun = decltype(run)::value, kThreads = decltype(threads)::value;
    if (args.forms.any()) {
      const int64_t bands =
          blocks_for(args.rows, rows_together<kThreads>(args.forms.magnitudes == 2));
      const int64_t blocks = bands < kMostProducers ? bands : kMostProducers;
      launch("norm_forward", norm_forms_kernel<kRun, kThreads>, Grid(blocks), kRowThreads, stream,
             args);
      return finish_forms(args.forms, blocks, stream);
    }
    launch("norm_forward", norm_forward_kernel<kRun, kThreads>,
           Grid(blocks_for(args.rows, kRowThreads / kThreads)), kRowThreads, stream, args);
  });
}

VIADUCT_KERNEL_FILE(norm_forward)

}  // namespace viaduct::cuda
